r"""What the residuals of near rows say together: a smaller penalty than that of each row alone.

With ``N = diag(σ²/w)`` and the residual process ``R = K - V Vᵀ`` of the rows, of diagonal r,

    log |K + N|  ≤  log |V Vᵀ + N| + log |I + N^-½ R N^-½|
                 ≤  log |V Vᵀ + N| + Σ_b log |M_b|,        M_b = I + N_b^-½ R_bb N_b^-½,

for any groups b of the rows, by Fischer's inequality. Groups of one row have the penalty of Titsias
(2025), ``½ log(1 + r/σ²)``. Groups of near rows are closer (Bui and Titsias 2025). The penalty and
its gradients are, with ``G_b = N_b^-½ M_b⁻¹ N_b^-½`` and P targets,

    P/2 Σ_b log |M_b|,    ∂/∂K_bb = P/2 G_b,    ∂/∂V_b = -P G_b V_b,
    ∂/∂σ²_i = P/2 ((M_b⁻¹)_ii - 1)/σ²_i.

No group waits for what another one says, so that one visit to the rows gives all of it.
"""

from typing import NamedTuple

import numpy as np

from skgp_sparse import kernels
from skgp_sparse._ground.linalg import weighted_gram
from skgp_sparse._ground.parallel import slices

_SQUARES = 3  # (rows, k) arrays for each (rows, m) array that a visit holds


class NearRows(NamedTuple):
    """Groups of near rows: indices of all rows of positive weight."""

    whole: np.ndarray  # (s, size) groups
    rest: np.ndarray  # (r,) a smaller group, of what is left
    scale: float | np.ndarray  # unit in which near is near, or (d,)

    size = property(lambda self: self.whole.shape[1])

    def order(self):
        """The rows of one group after those of another."""
        return np.append(self.whole, self.rest)

    def blocks(self, n):
        """Index arrays of about n rows, which cut no group."""
        step = max(n // self.size, 1)
        parts = [self.whole[k : k + step].ravel() for k in range(0, len(self.whole), step)]
        return [*parts, self.rest] if len(self.rest) else parts


def near_rows(rows, scale, size):
    """`NearRows` of a table: rows are halved where they are widest, until halves are groups.

    Parameters
    ----------
    rows : Table
    scale : float or ndarray of shape (d,)
    size : int
        Number of rows of a group.
    """
    X = rows.stored_inputs()
    used = np.arange(len(X)) if rows.weight is None else np.flatnonzero(rows.weight)
    whole, rest, parts = [], used[:0], [used]
    while parts:
        part = parts.pop()
        if len(part) == size:
            whole.append(part)
        elif len(part) < size:
            rest = part
        else:
            x = X[part] / scale
            half = size * max(len(part) // (2 * size), 1)
            order = np.argsort(x[:, np.argmax(np.ptp(x, axis=0))], kind="stable")
            parts += [part[order[half:]], part[order[:half]]]
    return NearRows(np.array(whole, dtype=np.intp).reshape(-1, size), rest, scale)


def penalty(problem, near):
    """``P/2 Σ log |M_b|``, at the kernel and the basis of the problem; its bound has no say."""

    def run(read):
        stack = _look(problem, features, read(), near.size)
        return (_half_log_det(_triangles(stack.M)),), None

    features = problem.features()
    return problem.rows.n_targets * problem.rows.visit(run, _layout(problem, near))[0][0]


def penalty_and_gradient(problem, near, inputs):
    """The penalty, and its gradients by the name of the block, that of the basis if `inputs`."""

    def run(read):
        stack = _look(problem, features, read(), near.size)
        L = _triangles(stack.M)
        return (_half_log_det(L), *stack.pull(L, features, inputs)), None

    features, n_targets = problem.features(), problem.rows.n_targets
    total, theta_bar, basis_bar, S = problem.rows.visit(run, _layout(problem, near))[0]
    of_theta, of_basis = features.pull_whitening(S, np.zeros((len(S), 1)), inputs)
    gradient = {"kernel": n_targets * (theta_bar + of_theta)}
    if inputs:
        gradient["basis"] = n_targets * (basis_bar + of_basis)
    return n_targets * total, gradient


def explained(residual, size):
    """Slices of the rows of each group, and C (k, k) with ``C Cᵀ = I - M_b⁻¹``: a list of pairs.

    Parameters
    ----------
    residual : ndarray of shape (n, n)
        ``N^-½ R N^-½``, the rows of one group after those of another.
    size : int
        Number of rows of a group; the last one may be smaller.
    """
    pairs = []
    for group in slices(len(residual), size):
        values, directions = np.linalg.eigh(residual[group, group])
        values = np.maximum(values, 0.0)
        pairs.append((group, directions * np.sqrt(values / (1.0 + values))))
    return pairs


class _ResidualStack(NamedTuple):
    """The residuals of some groups of as many rows (s, k)."""

    M: np.ndarray  # (s, k, k)
    V: np.ndarray  # (s, k, m)
    variance: np.ndarray  # (s, k) σ²
    root: np.ndarray  # (s, k) N^-½
    tape: object  # of features and diagonal
    pull_within: object  # of K_bb

    def pull(self, L, features, inputs):
        """Gradients wrt theta and the basis, and S of `Features.pull_whitening`; P = 1."""
        s, k = self.root.shape
        C = np.linalg.solve(L, np.broadcast_to(np.eye(k), L.shape))  # CᵀC = M⁻¹
        noise_bar = 0.5 * ((C**2).sum(axis=1) - 1.0) / self.variance
        C *= self.root[:, None, :]  # CᵀC = G
        CV = C @ self.V
        GV = (C.transpose(0, 2, 1) @ CV).reshape(-1, features.size)
        S = 0.5 * weighted_gram(CV.reshape(GV.shape), 1.0)
        K_bar = features.through_whitening(np.negative(GV, out=GV), GV)
        theta_bar, basis_bar = features.pull(self.tape.features, K_bar, inputs)
        G = C.transpose(0, 2, 1) @ C
        G *= 0.5
        theta_bar = theta_bar + self.pull_within(G, inputs=False)[0]
        theta_bar += self.tape.diagonal(np.zeros(s * k), noise_bar.ravel())[0]
        return theta_bar, basis_bar if inputs else 0.0, S


def _triangles(M):
    """Cholesky factors of ``M_b``, whose eigenvalues are 1 or more but for rounding."""
    try:
        return np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        values, directions = np.linalg.eigh(M)  # NaN raises again
        scaled = directions * np.maximum(values, 1.0)[:, None, :]
        return np.linalg.cholesky(scaled @ directions.transpose(0, 2, 1))


def _half_log_det(L):
    return np.log(np.einsum("skk->sk", L)).sum()


def _look(problem, features, block, size):
    """The `_ResidualStack` of a block: groups of one size, or the rest."""
    seen = problem.project(features, block.X)
    shape = max(len(block.X) // size, 1), min(size, len(block.X))
    variance = np.broadcast_to(seen.noise + block.noise, len(block.X))
    root = np.sqrt(block.weight / variance).reshape(shape)
    K, pull_within = kernels.linearize_stack(problem.kernel, block.X.reshape(*shape, -1))
    V = seen.V.reshape(*shape, -1)
    M = K - V @ V.transpose(0, 2, 1)
    M *= root[:, :, None] * root[:, None, :]
    np.einsum("skk->sk", M)[:] += 1.0
    return _ResidualStack(M, V, variance.reshape(shape), root, seen.tape, pull_within)


def _layout(problem, near):
    """The `Layout` whose blocks are groups; nothing waits for another visit."""
    width = problem.basis.size + _SQUARES * near.size
    footprint = kernels.footprint(problem.kernel)
    layout = problem.rows.layout(width, footprint, problem.options)
    return layout._replace(blocks=near.blocks(layout.blocks[0].stop))
