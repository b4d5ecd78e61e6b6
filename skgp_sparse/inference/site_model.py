"""The model of rows with a likelihood: it samples them, and makes their objectives."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from skgp_sparse._engine import exact_sites
from skgp_sparse._engine.collapsed_sites import project_rows
from skgp_sparse._engine.forward import Sums
from skgp_sparse._engine.inducing_basis import InducingBasis
from skgp_sparse.inference.contracts import Method, Model
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteObjective

_OF_A_KIND = 0.1  # of the rows of a start, where there are so many
_ROUGH = 1e-7  # tolerance of the inner loop in a fit that another one follows


@dataclass(frozen=True)
class SiteModel(Model):
    """Rows with a likelihood.

    Parameters
    ----------
    method : Method
    inner : Inner
    settled : Sums or None
        What rows say that are no longer in the table, for objectives at inducing points.
    """

    method: Method
    inner: Inner = Inner()
    settled: Sums | None = None

    def sample(self, rows, size, random_state):
        """Indices of the rows of the small fit that comes first: a share of those of each kind."""
        chosen = rows.sample(size, random_state)
        kinds = self.kinds(rows)
        counts = True if rows.weight is None else rows.weight > 0
        for kind in range(kinds.max() + 1):
            own = (kinds == kind) & counts
            missing = int(size * _OF_A_KIND) - np.count_nonzero(own[chosen])
            if missing > 0 and len(chosen) == size:
                chosen = _with_more(chosen, own, missing, random_state)
        return chosen

    def kinds(self, rows):
        """Kinds of all rows, numbered in their order."""
        likelihood = self.method.likelihood
        parts = [likelihood.kinds(rows.targets(piece)[:, 0]) for piece in rows.pieces()]
        if len(parts) == 1:
            return np.unique(parts[0], return_inverse=True)[1]
        known = np.unique(np.concatenate([np.unique(part) for part in parts]))
        smallest = np.min_scalar_type(len(known))
        return np.concatenate([np.searchsorted(known, part).astype(smallest) for part in parts])

    def informed_by(self, objective):
        """The model with the parameters of the likelihood that a small fit found."""
        likelihood = objective.method.likelihood
        return replace(self, method=replace(self.method, likelihood=likelihood))

    def exact(self, rows, options, rough=False):
        """Objective whose inducing points are the distinct rows; `rough` to start from."""
        tol = max(self.inner.tol, _ROUGH if rough else 0.0)
        inputs, index = exact_sites.group_inputs(rows)
        inner = self.inner._replace(tol=tol)
        if not self.method.likelihood.is_log_concave:  # precisions may have any sign
            return SiteObjective(rows, self.method, InducingBasis(inputs), options, inner)
        project = partial(exact_sites.join_rows, index)
        return SiteObjective(rows, self.method, InducingBasis(inputs), options, inner, project)

    def sparse(self, rows, Z, options):
        """Objective at inducing points Z."""
        basis, project = InducingBasis(Z), partial(project_rows, settled=self.settled)
        return SiteObjective(rows, self.method, basis, options, self.inner, project)


def _with_more(chosen, own, missing, random_state):
    """The chosen rows, some of which give way to `missing` further rows of a kind."""
    spare = own.copy()
    spare[chosen] = False
    spare = np.flatnonzero(spare)
    if len(spare) == 0:
        return chosen
    drawn = random_state.choice(spare, min(missing, len(spare)), replace=False)
    others = random_state.permutation(chosen[~own[chosen]])[len(drawn) :]
    return np.sort(np.concatenate([chosen[own[chosen]], others, drawn]))
