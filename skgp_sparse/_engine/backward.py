"""Second visit to the rows: the gradient, pulled back through the features block by block.

Where ``t = P τ a`` with one τ for all rows, the bracket of ``∂F/∂K`` is one m×m matrix times V
(2 n m²). Elsewhere ``B⁻¹ V`` is formed first, which also yields ``h``, and the whitening applied
after (3 n m²); with a noise share one more rank-k update gives ``Vᵀ diag(t) V``.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse._engine.basis import Features
from skgp_sparse._engine.forward import forward_block
from skgp_sparse._ground.buffers import empty
from skgp_sparse._ground.linalg import inverse_from_triangle, row_dots, weighted_gram


class Cotangents(NamedTuple):
    """The m×m part of the gradient, the same for every block."""

    features: Features
    n_targets: int
    noise_share: float
    reduce_slope: float
    latent_noise: bool
    v: np.ndarray  # LB⁻ᵀ c: the mean at the rows is V v
    u: np.ndarray  # Tᵀ v: it is K u
    Binv: np.ndarray
    shared: np.ndarray | None  # P (B⁻¹ + 2 τ I) T, where one τ serves all rows
    mean_h: float  # Σ a h / Σ a: all of h that uniform noise needs to know


def cotangents(problem, features, solution, tau):
    """Matrices that the visit to every block multiplies with."""
    v = solution.TB.T @ solution.c
    Binv = inverse_from_triangle(solution.TB, problem.options.n_jobs)
    n_targets = v.shape[1]
    shared = None
    if tau is not None:
        tau = 0.0 if features.complete else tau
        bracket = n_targets * Binv
        bracket.flat[:: len(bracket) + 1] += 2.0 * tau * n_targets
        shared = features.through_whitening(bracket)
    return Cotangents(
        features=features,
        n_targets=n_targets,
        noise_share=problem.bound.noise_share,
        reduce_slope=solution.reduce_slope,
        latent_noise=problem.latent_noise,
        v=v,
        u=features.weights(v),
        Binv=Binv,
        shared=shared,
        mean_h=(len(Binv) - np.trace(Binv)) / solution.statistics.a,
    )


def second_visit(problem, features, layout, waiting, cot, inputs, sites=None):
    """Sum over blocks of the gradients wrt theta and the basis, and of ``Vᵀ diag(t) V``.

    The gradients are those through the raw features, not through their whitening. The matrix is 0
    unless there is a noise share: without it the first visit knows ``t``.
    """

    def run(read, forward, site):
        block = read()
        forward = forward or forward_block(problem, features, block, site=site)
        tape = forward.tape or problem.tape(features, block.X)
        return _backward_block(forward, tape, block, cot, inputs), None

    sites = [None] * len(layout.blocks) if sites is None else list(sites)
    return problem.rows.visit(run, layout, waiting, sites, spend=True)[0]


def pull_whitening(cot, VtV, inputs):
    """Gradients wrt theta and the basis through the whitening of the features.

    Its cotangent is ``Tᵀ S T - ½ u uᵀ`` with ``S = ½ P (I - B⁻¹) + Vᵀ diag(t) V``.
    """
    S = cot.Binv * (-0.5 * cot.n_targets)
    S += VtV
    S.flat[:: len(S) + 1] += 0.5 * cot.n_targets
    return cot.features.pull_whitening(S, cot.u, inputs)


def _backward_block(forward, tape, block, cot, inputs):
    V, a, n_targets, precision = forward.V, forward.a, cot.n_targets, forward.precision
    e = forward.linear - np.reshape(precision, (-1, 1)) * (V @ cot.v)  # (y - mean)/σ²
    if cot.shared is None:
        BV = np.matmul(V, cot.Binv, out=empty(V.shape))
        h = row_dots(BV, V)
    else:
        BV, h = None, cot.mean_h
    weight = block.weight
    g = row_dots(e, e) + n_targets * precision * (precision * h - forward.own)
    g *= 0.5 * weight / forward.own**2
    penalty_bar = n_targets * cot.reduce_slope * weight * forward.slope * precision
    t = cot.noise_share * g - penalty_bar
    ae = e * np.reshape(weight / forward.own, (-1, 1))
    noise_bar = t if cot.latent_noise else g + penalty_bar * forward.x
    t = 0.0 * t if cot.features.complete else t
    K_bar = _cotangent_of_features(V, ae, BV, t, a, cot)
    theta_bar, own_bar = cot.features.pull(tape.features, K_bar, inputs)
    n = len(V)
    theta_bar += tape.diagonal(np.broadcast_to(t, n), np.broadcast_to(noise_bar, n))[0]
    VtV = weighted_gram(V, t) if cot.noise_share else 0.0
    return theta_bar, own_bar if inputs else 0.0, VtV


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
