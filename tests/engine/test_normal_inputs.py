"""Rows whose inputs have a distribution: ball arithmetic, laws, and the regression that it extends.

``golden/gplvm.npz`` holds the inputs of each case, statistics, bounds with their gradients,
predictions, and bounds of new rows.
"""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import inside
import numpy as np
import pytest
from conftest import BOUNDS, agree, stored_cases
from kernel_cases import parsed
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

CASES = stored_cases("gplvm")
OBJECTIVES = ("dtc", "vfe", "artemev", "titsias_new")


class Golden(NamedTuple):
    """A case, as an objective at its kernel."""

    ref: dict
    kernel: object
    objective: inside.LatentObjective
    has_prior: bool  # whether the KL is a part of the bound

    def at(self, bound):
        """The objective with another bound."""
        return inside.LatentObjective(**{**vars(self.objective), "bound": BOUNDS[bound]})


def table(y, noise=0.0, weight=None):
    return inside.ArrayDataset(np.empty((len(y), 0)), y, noise, weight)


@cache
def golden(name):
    ref = CASES[name]
    kernel, noise, y = parsed(ref["kernel"]), ref["noise_variance"], ref["Y"]
    if noise.ndim == 0:
        kernel, noise = kernel + WhiteKernel(float(noise)), 0.0
    patterns, of_column = inside.patterns_of(ref.get("mask", np.ones(y.shape, dtype=bool)))
    is_fixed, prior = "inputs_fixed" in ref, inside.Normals(ref["prior_mean"], ref["prior_var"])
    if is_fixed:
        prior = inside.Normals(ref["mu"], ref["S"])
    with np.errstate(all="ignore"):  # inputs that are known
        shift = np.nan_to_num((ref["mu"] - prior.mean) / np.sqrt(prior.variance))
        log_ratio = np.nan_to_num(np.log(ref["S"] / prior.variance))
    objective = inside.LatentObjective(
        rows=table(y, noise, ref.get("weight")),
        bound=None,
        basis=inside.InducingBasis(ref["Z"]),
        prior=prior,
        shift=shift,
        log_ratio=log_ratio,
        patterns=patterns,
        of_column=of_column,
        options=inside.Options(inside.Jitter(float(ref["jitter"]), relative=False)),
    )
    return Golden(ref, kernel, objective, not is_fixed)


def tolerances(name):
    return (1e-8, 1e-5) if name == "ill_conditioned" else (1e-10, 1e-8)


@pytest.fixture(autouse=True)
def as_many_nodes_as_it_takes(request, monkeypatch):
    """Sums with an RBF are integrated exactly in the data, and by nodes in the package."""
    name = getattr(request.node, "callspec", None) and request.node.callspec.params.get("name")
    if name in ("sum_rbf_dot", "two_rbf"):
        monkeypatch.setattr(
            "skgp_sparse.kernels._expectations.rule_of", lambda d: inside.gauss_hermite(80, d)
        )


@pytest.mark.parametrize("bound", OBJECTIVES)
@pytest.mark.parametrize("name", CASES)
def test_bounds_and_gradients_agree_with_ball_arithmetic(name, bound):
    case, (tolerance, of_gradient) = golden(name), tolerances(name)
    ref, objective, kernel = case.ref, case.at(bound), case.kernel
    agree(objective.value(kernel), ref[f"bound_{bound}"], tolerance)
    found = objective.value_and_gradient(kernel, inputs=True)
    agree(found.value, ref[f"bound_{bound}"], tolerance)
    theta_bar = found.gradient["kernel"]
    if ref["noise_variance"].ndim == 0:
        agree(theta_bar[-1], ref[f"grad_{bound}_log_noise"], of_gradient)
        theta_bar = theta_bar[:-1]
    agree(theta_bar, ref[f"grad_{bound}_theta"], of_gradient)
    agree(found.gradient["basis"], ref[f"grad_{bound}_Z"], of_gradient)
    root = np.sqrt(objective.prior.variance)
    agree(found.gradient["shift"], root * ref[f"grad_{bound}_mu"], of_gradient)
    agree(found.gradient["log_ratio"], ref[f"grad_{bound}_log_S"], of_gradient)


@pytest.mark.parametrize("name", CASES)
def test_predictions_agree_with_ball_arithmetic(name):
    case, (tolerance, _) = golden(name), tolerances(name)
    posterior = case.at("vfe").conclude(case.kernel).posterior
    inputs = inside.Normals(case.ref["mu_test"], case.ref["S_test"])
    mean, variance = posterior.predict(inputs)
    agree(mean, case.ref["pred_mean"], tolerance)
    agree(variance, case.ref["pred_var"], tolerance)


@pytest.mark.parametrize("bound", ["vfe", "titsias_new"])
@pytest.mark.parametrize("name", [name for name in CASES if "Y_new" in CASES[name]])
def test_bounds_of_new_rows_agree_with_ball_arithmetic(name, bound):
    case, (tolerance, of_gradient) = golden(name), tolerances(name)
    ref, mean, variance = case.ref, case.ref["mu_new"], case.ref["S_new"]
    posterior = case.at(bound).conclude(case.kernel).posterior
    latent = inside.LatentRows(inside.Normals(mean, variance), *inside.patterns_of(ref["mask_new"]))
    new = table(ref["Y_new"]).everything()
    value, mean_bar, variance_bar = inside.normal_inputs.log_likelihoods(
        BOUNDS[bound], posterior, new, latent
    )
    divergence = 0.5 * np.sum(mean**2 + variance - np.log(variance) - 1.0, axis=1)
    of_log = variance * variance_bar - 0.5 * (variance - 1.0)
    agree(value - divergence, ref[f"row_bound_{bound}"], tolerance)
    agree(mean_bar - mean, ref[f"grad_row_bound_{bound}_mu"], of_gradient)
    agree(of_log, ref[f"grad_row_bound_{bound}_log_S"], of_gradient)


@pytest.mark.parametrize("name", CASES)
def test_newer_bounds_are_tighter(name):
    case = golden(name)
    values = [case.at(bound).value(case.kernel) for bound in ("vfe", "artemev", "titsias_new")]
    ceiling = [float(case.ref["log_evidence"])] if "log_evidence" in case.ref else []
    assert values + ceiling == sorted(values + ceiling)


def problem(n=300, p=3, d=2, m=7, seed=0, with_missing=True):
    rng = np.random.RandomState(seed)
    mask = rng.uniform(size=(n, p)) > 0.2 if with_missing else np.ones((n, p), dtype=bool)
    rows = table(rng.normal(size=(n, p)) * mask, rng.uniform(0.1, 0.3, n), rng.uniform(0.5, 2, n))
    inputs = inside.Normals(rng.normal(size=(n, d)), rng.uniform(0.01, 0.5, (n, d)))
    kernel = ConstantKernel(1.3) * RBF([0.9, 1.4]) + WhiteKernel(0.1)
    basis = inside.InducingBasis(rng.normal(size=(m, d)))
    return inside.Problem(kernel, basis, rows, BOUNDS["titsias_new"]), inside.LatentRows(
        inputs, *inside.patterns_of(mask)
    )


@pytest.mark.parametrize("bound", OBJECTIVES)
def test_known_inputs_are_those_of_regression(bound):
    asked, latent = problem(n=60, with_missing=False)
    asked, X = asked._replace(bound=BOUNDS[bound]), latent.inputs.mean
    latent = latent._replace(inputs=inside.Normals(X, np.zeros_like(X)))
    found = inside.normal_inputs.value_and_gradient(asked, latent)
    expected = inside.collapsed.value_and_gradient(asked._replace(rows=replace(asked.rows, X=X)))
    agree(found.value, expected.value, 1e-12)
    agree(found.theta_bar, expected.theta_bar, 1e-10)
    agree(found.Z_bar, expected.Z_bar, 1e-10)


def test_neither_blocks_nor_threads_nor_memory_matter(monkeypatch):
    asked, latent = problem()
    whole = inside.normal_inputs.value_and_gradient(asked, latent)
    monkeypatch.setattr("skgp_sparse.data.dataset._BLOCK_BYTES", 64 * 28 * 8)
    assert len(asked.rows.layout(28, 2, asked.options).blocks) > 3
    for options in (inside.Options(n_jobs=2), inside.Options(memory=1e5)):
        found = inside.normal_inputs.value_and_gradient(asked._replace(options=options), latent)
        agree(found.value, whole.value, 1e-12)
        for name, bar in whole.gradient.items():
            agree(found.gradient[name], bar, 1e-10)


def test_rows_without_observations_say_nothing_about_their_inputs():
    asked, latent = problem(n=40)
    latent.patterns[3] = 0.0
    gradient = inside.normal_inputs.value_and_gradient(asked, latent).gradient
    assert not gradient["mean"][3].any() and not gradient["variance"][3].any()
    assert gradient["mean"][4].any()


def test_repeated_columns_share_their_gaps():
    mask = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=bool)
    patterns, of_column = inside.patterns_of(mask)
    assert patterns.shape == (3, 2) and of_column[0] == of_column[1]
    agree(patterns[:, of_column], mask, 0)
    agree(inside.patterns_of(mask[2:])[0], np.ones((1, 1)), 0)
