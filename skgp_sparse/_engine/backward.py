"""Second visit to the rows: the gradient, pulled back through the features block by block.

Where ``t = P τ a`` with one τ for all rows, the bracket of ``∂F/∂K`` is one m×m matrix times V
(2 n m²). Elsewhere ``B⁻¹ V`` is formed first, which also yields ``h``, and the whitening applied
after (3 n m²); where t is not known before, one rank-k update gives ``Vᵀ diag(t) V``. Processes
with the same features add their brackets, which are pulled back together.
"""

from functools import reduce
from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.basis import Features
from skgp_sparse._ground.buffers import empty
from skgp_sparse._ground.linalg import inverse_from_triangle, row_dots, weighted_gram


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
    n_targets = core.v.shape[1]
    shared = None
    if tau is not None:
        tau = 0.0 if features.complete else tau
        bracket = n_targets * Binv
        bracket.flat[:: len(bracket) + 1] += 2.0 * tau * n_targets
        shared = features.through_whitening(bracket)
    return Cotangents(
        features=features,
        n_targets=n_targets,
        reduce_slope=reduce_slope,
        latent_noise=problem.latent_noise,
        v=core.v,
        u=features.weights(core.v),
        Binv=Binv,
        shared=shared,
        mean_h=(len(Binv) - np.trace(Binv)) / total_a,
    )


def second_visit(problem, features, layout, see, cots, inputs, want_gram, *kept):
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

    seen_by_rows = [cot if cot.shared is None else cot._replace(Binv=None) for cot in cots]

    def run(read, *waiting):
        block = read()
        forwards = see(block, *waiting)
        tape = forwards[0].tape or problem.tape(features, block.X)
        pairs = zip(forwards, seen_by_rows)
        parts = (_cotangents_of_block(*pair, block, want_gram) for pair in pairs)
        K_bar, t, noise_bar, VtV = reduce(_added, parts)
        theta_bar, basis_bar = features.pull(tape.features, K_bar, inputs)
        n = len(block.X)
        theta_bar += tape.diagonal(np.broadcast_to(t, n), np.broadcast_to(noise_bar, n))[0]
        return (theta_bar, basis_bar if inputs else 0.0, VtV), None

    nothing = [False] * len(layout.blocks)
    return problem.rows.visit(run, layout, *kept, keep=nothing, spend=True)[0]


def pull_whitening(cots, VtV, inputs):
    """Gradients wrt theta and the basis through the whitening of the features.

    Its cotangent is ``Tᵀ S T - ½ u uᵀ`` with ``S = ½ P (I - B⁻¹) + Vᵀ diag(t) V``, summed over
    processes.
    """
    S = cots[0].Binv * (-0.5 * cots[0].n_targets)
    for cot in cots[1:]:
        S -= (0.5 * cot.n_targets) * cot.Binv
    S += VtV
    S.flat[:: len(S) + 1] += 0.5 * sum(cot.n_targets for cot in cots)
    u = np.hstack([cot.u for cot in cots])
    return cots[0].features.pull_whitening(S, u, inputs)


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
