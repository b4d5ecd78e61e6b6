"""Sites of counts, positive and heavy-tailed targets, powers and classes: against other programs.

The values of ``tests/golden`` were computed by programs of another origin; their README, which is
not part of the project, says how.
"""

from dataclasses import replace
from itertools import chain
from typing import NamedTuple

import inside
import numpy as np
import pytest
from conftest import agree, infer, stored_cases
from kernel_cases import parsed

from skgp_sparse import bounds
from skgp_sparse.likelihoods import Gamma, Logit, NegativeBinomial, Poisson, Probit, StudentT

TIGHT = inside.Inner(max_iter=1000, tol=1e-21)
MAKE = {"poisson": Poisson, "negbin": NegativeBinomial, "gamma": Gamma, "student": StudentT}
GOLDEN = {file: stored_cases(file) for file in ("counts", "poisson", "power_ep", "multiclass")}
# condition numbers of Kuu of about 1e6 and more
DIFFICULT = {"rbf_iso", "large_counts", "ill_conditioned"}


def count_likelihood(ref):
    """The likelihood of a case, with a level of 0 that is learned."""
    pairs = ((float(value), (1e-3, 1e5)) for value in ref["likelihood_params"])
    return MAKE[str(ref["likelihood"])](*chain(*pairs), level=0.0)  # each with its bounds


class Undivided(inside.ExpectationPropagation):
    """The power as it is, whatever the weight."""

    def surrogate(self, v):
        return bounds.PEP(self.power)

    def _powers(self, weight):
        return self.power


def method_of(prefix, likelihood, *, undivided=False):
    if prefix.startswith("mix"):
        return method_of(prefix[4:], likelihood.majorised())
    if prefix in ("vfe", "new", "new_class"):
        return inside.Variational(likelihood, prefix != "vfe")
    power = 1.0 if prefix == "gfitc" else float(prefix.split("_")[-1])
    if undivided:  # the power as it is, whatever the weight: some values were made so
        return Undivided(likelihood, power)
    return inside.ExpectationPropagation(likelihood, power)


def objective_of(ref, method, inner=TIGHT):
    n = len(ref["y"])
    weight = ref.get("weight", np.ones(n))
    y = np.asarray(ref["y"], dtype=float)[:, None]
    offset = ref.get("offset", np.zeros(n))
    rows = inside.ArrayDataset(ref["X"], y, 0.0, weight, offset=offset)
    options = inside.Options(jitter=inside.Jitter(float(ref["jitter"]), relative=False))
    kernel = parsed(ref["kernel"])
    return inside.SiteObjective(
        rows, method, inside.InducingBasis(ref["Z"]), options, inner
    ), kernel


def prefixes(ref):
    found = [key.removesuffix("_bound") for key in ref if key.endswith("_bound")]
    return found + [key.removesuffix("_logz") for key in ref if key.endswith("_logz")]


def every(file, wanted=lambda name, prefix: True):
    return [
        (name, prefix)
        for name, ref in GOLDEN[file].items()
        for prefix in prefixes(ref)
        if wanted(name, prefix)
    ]


def check(found, kernel, ref, prefix, tolerance):
    """Value, gradients, posterior and marginals of a golden case."""
    evaluation = found.value_and_gradient(kernel, inputs=True)
    value = ref[f"{prefix}_bound"] if f"{prefix}_bound" in ref else ref[f"{prefix}_logz"]
    agree(evaluation.value, value, 1e-10)
    agree(evaluation.theta_bar, ref[f"{prefix}_grad_theta"], tolerance)
    agree(evaluation.Z_bar, ref[f"{prefix}_grad_Z"], tolerance)
    mean, variance = found.conclude(kernel).posterior.mean_and_variance(ref["X_test"])
    agree(np.squeeze(mean), ref[f"{prefix}_mean_test"], tolerance)
    agree(variance, ref[f"{prefix}_var_test"], tolerance)
    solution = infer(found, kernel)
    rows = solution.step.result[2]
    counts = ref.get("weight", np.ones(len(ref["y"]))) > 0  # others have no site of their own
    agree(rows.mean.T[counts], ref[f"{prefix}_qf_mean_train"][counts], tolerance)
    agree(rows.variance.T[counts], ref[f"{prefix}_qf_var_train"][counts], tolerance)
    if f"{prefix}_v" in ref:
        agree(np.squeeze(solution.step.result[1]), ref[f"{prefix}_v"], tolerance)
    if f"{prefix}_site_precision" in ref:
        agree(solution.state[0].T[counts], ref[f"{prefix}_site_linear"][counts], 10 * tolerance)
        agree(solution.state[1].T[counts], ref[f"{prefix}_site_precision"][counts], 10 * tolerance)
    return evaluation


@pytest.mark.parametrize("name, prefix", every("counts"))
def test_counts(name, prefix):
    ref = GOLDEN["counts"][name]
    likelihood = count_likelihood(ref)
    method = method_of(prefix, likelihood, undivided=name == "negbin_weighted")
    found, kernel = objective_of(ref, method)
    evaluation = check(found, kernel, ref, prefix, 1e-8)
    if f"{prefix}_grad_offset" in ref and not prefix.startswith("mix"):
        own = ref.get(f"{prefix}_grad_likelihood", [])
        expected = np.append(ref[f"{prefix}_grad_offset"], own)
        agree(evaluation.gradient["likelihood"], expected, 1e-8)


@pytest.mark.parametrize("name, prefix", every("poisson", lambda _, prefix: prefix != "vfe_full"))
def test_poisson(name, prefix):
    ref = GOLDEN["poisson"][name]
    found, kernel = objective_of(ref, method_of(prefix, Poisson(level=0.0)))
    check(found, kernel, ref, prefix, 1e-6 if name in DIFFICULT else 1e-8)


@pytest.mark.parametrize("name", GOLDEN["poisson"])
def test_poisson_of_all_rows_is_the_full_method(name):
    ref = GOLDEN["poisson"][name]
    model = inside.SiteObjectives(method_of("vfe", Poisson(level=0.0)), TIGHT)
    found, kernel = objective_of(ref, model.site_method)
    full = model.exact(found.rows, inside.Options())
    agree(full.value(kernel), ref["vfe_full_bound"], 1e-9)
    mean, variance = full.conclude(kernel).posterior.mean_and_variance(ref["X_test"])
    agree(mean[:, 0], ref["vfe_full_mean_test"], 1e-7)
    agree(variance, ref["vfe_full_var_test"], 1e-7)


@pytest.mark.parametrize("name, prefix", every("power_ep"))
def test_powers_of_probit_and_logit(name, prefix):
    ref = GOLDEN["power_ep"][name]
    likelihood = Probit() if prefix.startswith("probit") else Logit()
    found, kernel = objective_of(ref, method_of(prefix, likelihood))
    check(found, kernel, ref, prefix, 1e-7)


class OneForAll(inside.Variational):
    """One v that all processes share."""

    def share(self, mean):
        return super().share(np.full_like(mean, mean.mean()))


@pytest.mark.parametrize(
    "name, prefix", every("multiclass", lambda name, prefix: name != "per_class")
)
def test_softmax(name, prefix):
    ref = GOLDEN["multiclass"][name]
    softmax = inside.Softmax(int(ref["n_classes"]))
    method = method_of(prefix, softmax)
    if prefix == "new":
        method = OneForAll(softmax, True)
        ref = ref | {"new_v": np.full(softmax.n_classes, ref["new_v"])}
    found, kernel = objective_of(ref, method)
    check(found, kernel, ref, prefix, 1e-7)
    mean, variance = found.conclude(kernel).posterior.mean_and_variance(ref["X_test"])
    agree(softmax.probability(mean.T, variance.T).T, ref[f"{prefix}_prob_test"], 1e-8)


class PerClass(NamedTuple):
    """What the inner loop works on where every class has a kernel and a basis of its own."""

    parts: list  # of ProjectedRows, one for each class

    jitter = 0.0
    layout = property(lambda self: self.parts[0].layout)

    @property
    def observed(self):
        residuals = (part.observed.residual for part in self.parts)
        residual = inside.by_row(lambda *own: np.stack(own), *residuals)
        return self.parts[0].observed._replace(residual=residual)

    def solve(self, natural):
        return inside.collapsed_sites.Cores(
            part.solve(inside.PerRow(block[:, c : c + 1] for block in natural))[0]
            for c, part in enumerate(self.parts)
        )

    def moments(self, cores):
        each = (
            part.moments(inside.collapsed_sites.Cores([core]))
            for part, core in zip(self.parts, cores)
        )
        return inside.by_row(lambda *own: np.concatenate(own, axis=1), *each)

    def gradient(self, cores, sites, bounds, inputs):
        found = [
            part.gradient(
                [cores[c]], inside.PerRow(s[:, c : c + 1] for s in sites), [bounds[c]], inputs
            )
            for c, part in enumerate(self.parts)
        ]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}


@pytest.mark.parametrize("prefix", ["vfe", "new", "new_class"])
def test_softmax_whose_classes_have_kernels_of_their_own(prefix):
    ref = GOLDEN["multiclass"]["per_class"]
    softmax = inside.Softmax(int(ref["n_classes"]))
    method = method_of(prefix, softmax)
    method = OneForAll(softmax, True) if prefix == "new" else method
    parts = [
        objective_of(ref | {"kernel": kernel, "Z": Z}, method)
        for kernel, Z in zip(str(ref["kernel"]).split("; "), ref["Z"])
    ]

    def project(problem):
        return PerClass([one.project(one.problem(kernel)) for one, kernel in parts])

    found = replace(parts[0][0], project=project)
    evaluation = found.value_and_gradient(parts[0][1], inputs=True)
    agree(evaluation.value, ref[f"{prefix}_bound"], 1e-10)
    agree(evaluation.theta_bar, ref[f"{prefix}_grad_theta"], 1e-7)
    agree(evaluation.Z_bar, ref[f"{prefix}_grad_Z"], 1e-7)
    solution = infer(found, parts[0][1])
    agree(solution.step.result[2].mean.T, ref[f"{prefix}_qf_mean_train"], 1e-8)
    agree(solution.step.result[2].variance.T, ref[f"{prefix}_qf_var_train"], 1e-8)


@pytest.mark.parametrize("name", ["negbin_weighted", "poisson_weighted"])
def test_powers_below_every_weight_need_no_division(name):
    ref = GOLDEN["counts"][name]
    likelihood = count_likelihood(ref)
    found, kernel = objective_of(ref, method_of("pep_0.1", likelihood))
    check(found, kernel, ref, "pep_0.1", 1e-8)
