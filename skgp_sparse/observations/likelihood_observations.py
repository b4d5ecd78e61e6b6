"""Numbers that a likelihood follows: counts, positive numbers, numbers with heavy tails."""

from dataclasses import replace

import numpy as np

from skgp_sparse._engine.data.intervals import observed
from skgp_sparse._engine.data.target_scaler import TargetScaler
from skgp_sparse.explain.views import ResponseView, TargetView
from skgp_sparse.inference.site_loop import Inner
from skgp_sparse.inference.site_objective import SiteObjectives
from skgp_sparse.likelihoods import is_censored, warn_outside_bounds
from skgp_sparse.observations.site_observations import SiteObservations, observations_of
from skgp_sparse.observations.streams import new_stream
from skgp_sparse.parameters.choices import resolve_latent_kernel, resolve_likelihood, resolve_method
from skgp_sparse.parameters.parameter_checks import (
    check_no_alpha,
    check_sites_of_solver,
)
from skgp_sparse.parameters.requests import check_posterior_method, tolerance
from skgp_sparse.posteriors._moves import warm_start_of
from skgp_sparse.posteriors._names import resolve_posterior
from skgp_sparse.rows.checks import Rules


class LikelihoodObservations(SiteObservations):
    """Numbers with a likelihood."""

    def __init__(self, parameters, name):
        self.parameters, self.name = parameters, name
        self.likelihood = resolve_likelihood(parameters.likelihood, name)
        if self.moves():
            warn_outside_bounds(self.likelihood, name)
        self.posterior_method = resolve_posterior(parameters.posterior, name)
        method = resolve_method(parameters.bound, self.likelihood, name)
        check_posterior_method(self)
        check_sites_of_solver(parameters, method, name)
        check_no_alpha(parameters, name)
        given = {"likelihood": self.likelihood, "n_targets": parameters.n_targets}
        self.rules = Rules(name, parameters.kernel, **given)
        self.normalizes = parameters.normalize_y and self.likelihood.standardises

    def jobs(self, rows, earlier):
        """The one job there is."""
        return self.jobs_of_part(rows, one_form=True)

    def jobs_of_part(self, part, one_form=False):
        """List of the only job."""
        rows = (part.in_one_form() if one_form else part).in_units(TargetScaler.none(1))
        return [self._job(rows.in_units(self._units(rows)))]

    def counts(self, part):
        """All rows of the part."""
        return [len(part)]

    def view(self, fits, units):
        """The response in units of y."""
        latent = TargetView(fits[0].posterior)
        return ResponseView(latent, fits[0].likelihood, units)

    def attributes(self, fits, units):
        """Fitted attributes that describe the posterior, and the likelihood in units of y."""
        mean, scale = units.mean[0], units.scale[0]
        likelihood = fits[0].likelihood.rescaled(-mean / scale, 1.0 / scale)
        process = fits[0].posterior
        learned = {"metric_": process.metric, "variance_factor_": process.factor}
        return {"posterior_": fits[0].name, "likelihood_": likelihood, **learned}

    def log_densities(self, view, part):
        """Log densities of the targets (n,)."""
        return view.log_density(part.X, observed(part.y), part.offset)

    def accept(self, part, stream):
        """The part, whose targets are as many as before."""
        return part if stream is None else stream.accepted(part, self.name)

    def new_stream(self, part, random_state):
        """A stream to which no row has come."""
        return new_stream(part, random_state, 1)

    def stream_of(self, fits, n_iter, random_state):
        """The `StreamState` of the rows of a fit."""
        rows, kernel = fits[0].rows, fits[0].kernel
        part = rows.in_units_of_y().counting()
        job = self.job(rows, kernel, None)
        stream = new_stream(part, random_state, 1).seeded(part)
        warm_start = (warm_start_of(fits[0], job),)
        return stream._replace(warm_starts=warm_start, units=rows.units, n_iter=n_iter)

    def in_units(self, rows, units):
        """A table whose targets have other units."""
        offset = rows.offset
        if offset is not None:
            offset = offset * (rows.units.scale[0] / units.scale[0])
        return replace(rows, units=units, offset=offset)

    def _units(self, rows):
        """The units of the targets; known limits stay where they are to the last bit."""
        if rows.target_moments() is None:
            raise ValueError(
                f"{self.name}: all intervals of y are (-inf, inf), which says nothing. Pass rows "
                "of which an end is known."
            )
        units = TargetScaler.of(rows, self.normalizes, self.name)
        if is_censored(self.likelihood) and not self.likelihood.takes_intervals:
            return TargetScaler(np.zeros(1), 2.0 ** np.round(np.log2(units.scale)))
        return units

    def _job(self, rows):
        """The `Job` of a table; the parameters of the likelihood start from the data."""
        likelihood = self.likelihood.rescaled(*np.ravel(rows.units))
        likelihood = likelihood.started(*observations_of(rows))
        method = resolve_method(self.parameters.bound, likelihood, self.name)
        kernel = resolve_latent_kernel(self.given_kernel(), likelihood, rows, self.columns())
        inner = Inner.within(tolerance(self.parameters.tol))
        return self.job(rows, kernel, SiteObjectives(method, inner))
