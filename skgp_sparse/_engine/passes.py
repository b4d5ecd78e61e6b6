"""The two visits to the rows: blocks become sums, and the gradient is pulled back block by block.

**First visit.** Per block: features V (for inducing points one triangular product, n m²) and
``Vᵀ diag(a) V`` (one rank-k update, n m²).

A row is seen through its natural parameters, the precision ``1/σ²`` and the linear term ``y/σ²``:
those of its known and learned noise, or those of a Gaussian site. Nothing is divided by a precision
that may be 0, or negative where it is that of a site.

**Second visit.** Where ``t = P τ a`` with one τ for all rows, the bracket of ``∂F/∂K`` is one m×m
matrix times V (2 n m²). Elsewhere ``B⁻¹ V`` is formed first, which also yields ``h``, and the
whitening applied after (3 n m²); where t is not known before, one rank-k update gives
``Vᵀ diag(t) V``. Processes with the same features add their brackets, which are pulled back
together.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.basis import Features, Tape
from skgp_sparse._ground.linalg import LOG_2PI, inverse_from_triangle, row_dots, weighted_gram
from skgp_sparse._ground.parallel import empty


class Forward(NamedTuple):
    """Quantities of a block that the first pass computes and the second one needs."""

    V: np.ndarray
    tape: Tape | None
    precision: float | np.ndarray  # 1/σ², or λ2 of a site
    linear: np.ndarray  # y/σ² (n, p), or λ1
    x: np.ndarray  # r/σ²
    inflation: float | np.ndarray  # λ/σ²
    a: float | np.ndarray  # w/λ
    share: float | np.ndarray  # of r in λ
    phi: np.ndarray
    slope: float | np.ndarray  # φ'

    def weighted_targets(self, weight):
        """``a y`` (n, p)."""
        return self.linear * np.reshape(weight / self.inflation, (-1, 1))


class Sums(NamedTuple):
    """Sums over rows, or means; of several processes with a leading axis of these."""

    VaV: np.ndarray  # Vᵀ diag(a) V
    Vay: np.ndarray  # Vᵀ diag(a) y
    a: float = 0.0  # Σ a
    yay: float = 0.0  # Σ a y²; this and the rest are what an objective wants to know
    log_noise: float = 0.0  # Σ w (log 2π + log λ)
    phi: float = 0.0  # Σ w φ
    n: float = 0.0  # Σ w

    def __add__(self, more):
        return Sums(*(a + b for a, b in zip(self, more)))

    def times(self, factor):
        """Sums with every weight multiplied by a factor."""
        return Sums(*(factor * part for part in self))


def forward_pass(problem, features, layout, gradient):
    """Sum over all blocks.

    Parameters
    ----------
    problem : Problem
    features : Features
    layout : Layout
    gradient : bool
        Whether a gradient follows, for which blocks wait as far as memory allows.

    Returns
    -------
    Sums
    list of Forward or None
        The blocks that wait for the second visit.
    """

    def run(read):
        block = read()
        forward = forward_block(problem, problem.project(features, block.X), block)
        return block_sums(forward, block), forward

    keep = layout.whole if gradient else [False] * len(layout.blocks)
    sums, waiting = problem.rows.visit(run, layout, keep=keep)
    return Sums(*sums), waiting


def forward_block(problem, projection, block, site=None):
    """Everything about a block that does not depend on the other rows.

    Parameters
    ----------
    problem : Problem
    projection : Projection
    block : Batch
    site : ndarray of shape (2, n) or None
        Natural parameters that stand for noise and targets.
    """
    if site is None:
        precision = 1.0 / (projection.noise + block.noise)
        linear = block.y * np.reshape(problem.targets * precision, (-1, 1))
    else:
        linear, precision = site[0][:, None], site[1]
    x = projection.residual * precision
    bound = problem.bound.for_weights(block.weight)
    share = bound.noise_share
    inflation = 1.0 + share * x if np.any(share) else 1.0
    phi, slope = bound.penalty(x)
    a = block.weight * precision / inflation
    own = precision, linear, x, inflation, a, share, phi, slope
    return Forward(projection.V, projection.tape, *own)


def posterior_sums(forward, block):
    """The `Sums` of one block, those that a posterior wants to know only."""
    V, ay = forward.V, forward.weighted_targets(block.weight)
    return Sums(weighted_gram(V, forward.a), V.T @ ay, sum_of(forward.a, block))


def block_sums(forward, block):
    """The `Sums` of one block."""
    weight, n = block.weight, sum_of(block.weight, block)
    logs = sum_of(weight * np.log(forward.inflation / forward.precision), block)
    log_noise, phi = logs + n * LOG_2PI, sum_of(weight * forward.phi, block)
    yay = np.vdot(block.y, forward.weighted_targets(weight))
    return posterior_sums(forward, block)._replace(yay=yay, log_noise=log_noise, phi=phi, n=n)


def sum_of(values, block):
    """Sum over the rows of a block of numbers (n,), or of one number for each."""
    return np.broadcast_to(values, len(block.X)).sum()


class Cotangents(NamedTuple):
    """The m×m part of the gradient of a process, the same for every block."""

    features: Features
    n_targets: int
    reduce_slope: float
    latent_noise: bool
    v: np.ndarray  # LB⁻ᵀ c: the mean at the rows is V v
    u: np.ndarray  # Tᵀ v: it is K u
    Binv: np.ndarray
    shared: np.ndarray | None  # P (B⁻¹ + 2 τ I) T, where one τ serves all rows
    mean_h: float  # Σ a h / Σ a: all of h that uniform noise needs to know


def cotangents(problem, features, core, tau, total_a, reduce_slope):
    """Matrices that the visit to every block multiplies with."""
    Binv = inverse_from_triangle(core.TB, problem.options.n_jobs)
    n_targets, u = core.v.shape[1], features.weights(core.v)
    mean_h, shared = (len(Binv) - np.trace(Binv)) / total_a, None
    if tau is not None:
        bracket = n_targets * Binv
        bracket.flat[:: len(bracket) + 1] += 2.0 * n_targets * tau * (not features.complete)
        shared = features.through_whitening(bracket)
    latent = problem.latent_noise
    return Cotangents(features, n_targets, reduce_slope, latent, core.v, u, Binv, shared, mean_h)


def backward_pass(problem, features, layout, see, cots, inputs, want_gram, *kept):
    """Sum over blocks of the gradients wrt theta and the basis, and of ``Σ Vᵀ diag(t) V``.

    The gradients are those through the raw features, not through their whitening.

    Parameters
    ----------
    problem : Problem
    features : Features
    layout : Layout
    see : callable
        ``(block, *waiting) -> list of Forward``, one for each process, from what `kept` has.
    cots : list of Cotangents
        One for each process.
    inputs : bool
    want_gram : bool
        Whether the matrix is wanted; it is 0 otherwise.
    *kept : list
        One item per block, used up.
    """

    cots_of_rows = [cot if cot.shared is None else cot._replace(Binv=None) for cot in cots]

    def run(read, *waiting):
        block = read()
        forwards = see(block, *waiting)
        tape = forwards[0].tape or problem.tape(features, block.X)
        pairs = zip(forwards, cots_of_rows)
        parts = (_cotangents_of_block(*pair, block, want_gram) for pair in pairs)
        K_bar, t, noise_bar, VtV = reduce(_added, parts)
        theta_bar, basis_bar = features.pull(tape.features, K_bar, inputs)
        n = len(block.X)
        theta_bar += tape.diagonal(np.broadcast_to(t, n), np.broadcast_to(noise_bar, n))[0]
        return (theta_bar, basis_bar if inputs else 0.0, VtV), None

    nothing = [False] * len(layout.blocks)
    return problem.rows.visit(run, layout, *kept, keep=nothing, spend=True)[0]


def pull_whitening(cots, VtV, inputs, held=None):
    """Gradients wrt theta and the basis through the whitening of the features.

    Its cotangent is ``Tᵀ S T - ½ u uᵀ`` with ``S = ½ P (I - B⁻¹) + Vᵀ diag(t) V``, summed over
    processes. Where their posteriors are `held`, with these `Sums` over rows, it is as in
    `skgp_sparse._engine.collapsed_sites`.
    """
    features = cots[0].features
    if held:
        return features.pull_whitening(*_bracket_of_held(cots, VtV, held), inputs)
    S = cots[0].Binv * (-0.5 * cots[0].n_targets)
    for cot in cots[1:]:
        S -= (0.5 * cot.n_targets) * cot.Binv
    S += VtV
    S.flat[:: len(S) + 1] += 0.5 * sum(cot.n_targets for cot in cots)
    return features.pull_whitening(S, np.hstack([cot.u for cot in cots]), inputs)


def _bracket_of_held(cots, VtV, held):
    """``-sym Φ(W)``, and nothing in the place of u."""
    W = -2.0 * VtV
    for cot, sums in zip(cots, held):
        W = W + cot.v @ (sums.Vay - sums.VaV @ cot.v).T
        W -= cot.n_targets * (cot.Binv @ sums.VaV)
    S = np.tril(W)
    S.flat[:: len(S) + 1] *= 0.5
    return -0.5 * (S + S.T), np.zeros((len(S), 1))


def _cotangents_of_block(forward, cot, block, want_gram):
    """Gradients wrt raw features, residual and noise of the rows, and ``Vᵀ diag(t) V``."""
    V, a, n_targets, precision = forward.V, forward.a, cot.n_targets, forward.precision
    e = forward.linear - np.reshape(precision, (-1, 1)) * (V @ cot.v)  # (y - mean)/σ²
    if cot.shared is None:
        BV = np.matmul(V, cot.Binv, out=empty(V.shape))
        h = row_dots(BV, V)
    else:
        BV, h = None, cot.mean_h
    weight = block.weight
    g = row_dots(e, e) + n_targets * precision * (precision * h - forward.inflation)
    g *= 0.5 * weight / forward.inflation**2
    penalty_bar = n_targets * cot.reduce_slope * weight * forward.slope * precision
    t = forward.share * g - penalty_bar
    ae = e * np.reshape(weight / forward.inflation, (-1, 1))
    noise_bar = t if cot.latent_noise else g + penalty_bar * forward.x
    t = 0.0 * t if cot.features.complete else t
    K_bar = _cotangent_of_features(V, ae, BV, t, a, cot)
    return K_bar, t, noise_bar, weighted_gram(V, t) if want_gram else 0.0


def _added(totals, parts):
    """Sums over processes, matrices in place of the first ones."""
    return [
        np.add(total, part, out=total if np.ndim(total) == 2 else None)
        for total, part in zip(totals, parts)
    ]


def _cotangent_of_features(V, ae, BV, t, a, cot):
    """``v (a e)ᵀ - P B⁻¹ V diag(a) - 2 V diag(t)``, through the whitening."""
    a = np.reshape(a, (-1, 1))
    if BV is None:
        K_bar = np.matmul(V, cot.shared, out=empty(V.shape))
        K_bar *= -a
        K_bar += np.matmul(ae, cot.u.T, out=empty(V.shape))
        return K_bar
    BV *= -cot.n_targets * a
    other = np.multiply(V, 2.0 * np.reshape(t, (-1, 1)), out=empty(V.shape))
    BV -= other
    BV += np.matmul(ae, cot.v.T, out=other)
    return cot.features.through_whitening(BV, BV)
