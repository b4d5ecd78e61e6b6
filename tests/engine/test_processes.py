"""Everything that predicts is a process with the same methods, shapes and promises."""

import inspect
import pickle
from dataclasses import replace

import inside
import numpy as np
import pytest
from conftest import make_case
from inside import posterior as contract
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from skgp_sparse import kernels
from skgp_sparse.bounds import TitsiasNew

CASE = make_case("matern_1.5", m=8, targets=2)
AT = np.unique(CASE.X, axis=0)[:12] + 0.05


def _inducing():
    return inside.collapsed.conclude(CASE.problem(TitsiasNew()))[1]


def _features():
    kernel = ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(0.1)
    basis = inside.FourierBasis.drawn(kernel, 4, CASE.X[0], np.random.RandomState(0))
    problem = CASE.problem(TitsiasNew())._replace(kernel=kernel, basis=basis)
    return inside.collapsed.conclude(problem)[1]


def _exact():
    return inside.exact.conclude(CASE.kernel, CASE.groups())[1]


def _decoupled():
    problem = CASE.problem(TitsiasNew())
    small = problem._replace(basis=inside.InducingBasis(CASE.Z[:4]))
    return inside.collapsed.decoupled_conclude(problem, small)[1]


def _tight():
    return inside.tightened(_inducing(), CASE.rows().everything(), TitsiasNew())


def _several(make):
    one = make()
    return inside.IndependentPosteriors(
        (replace(one, u=one.u[:, :1]), replace(one, u=one.u[:, 1:]))
    )


def _neighbors(factor=1.0, metric=None):
    rows = CASE.rows()
    known = inside.distinct_rows(rows.stored_inputs(), rows.everything())
    kernel = ConstantKernel(2.0) * RBF(0.7) + WhiteKernel(0.1)
    noise = (known.noise + 0.1) / known.weight
    scale = np.ones(CASE.X.shape[1])
    return inside.NeighborsPosterior(kernel, known, noise, 7, scale, metric, factor)


def _rows(factor=1.0):
    near = _neighbors(factor)
    K = kernels.evaluate(near.prior, near.rows.X, near.rows.X)
    return inside.IterativePosterior(near, np.linalg.solve(K + np.diag(near.noise), near.rows.y))


def _combined():
    return inside.CombinedPosterior(
        _neighbors(), _inducing(), inside.CombinationWeights(0.5, 1.5, 0.1)
    )


PROCESSES = {
    "prior": (lambda: inside.Prior(CASE.kernel, 2), 0),
    "inducing points": (_inducing, 0),
    "random features": (_features, 0),
    "exact": (_exact, len(CASE.groups().X)),
    "decoupled": (_decoupled, 0),
    "tight variance": (_tight, len(CASE.rows().everything().used().X)),
    "several": (lambda: _several(_inducing), 0),
    "several exact ones": (lambda: _several(_exact), len(CASE.groups().X)),
    "all rows": (_rows, len(np.unique(CASE.X, axis=0))),
    "all rows, larger variances": (lambda: _rows(3.0), len(np.unique(CASE.X, axis=0))),
    "neighbours": (_neighbors, len(_neighbors().rows.X)),
    "neighbours in a metric, larger variances": (
        lambda: _neighbors(3.0, np.eye(CASE.X.shape[1]) + 0.2),
        len(_neighbors().rows.X),
    ),
    "neighbours and a global process": (_combined, len(_neighbors().rows.X)),
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_keeps_its_promises(name):
    inside.check_predictions(PROCESSES[name][0](), AT)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_says_how_many_rows_it_keeps(name):
    make, n_rows = PROCESSES[name]
    process = make()
    assert process.n_rows_kept == n_rows
    assert len(pickle.dumps(process)) >= n_rows * CASE.X[0].nbytes


def test_all_processes_are_checked():
    kinds, left = set(), [inside.Posterior]
    while left:
        subclasses = left.pop().__subclasses__()
        left += subclasses
        kinds |= {kind for kind in subclasses if kind.__module__.startswith("skgp_sparse")}
    # others check the first two, and the last ones have no instance
    kinds -= {inside.PosteriorWithMissingValues, inside.PosteriorWithMean}
    kinds -= {inside.FeaturePosterior, inside.PosteriorAround}
    assert kinds == {type(make()) for make, _ in PROCESSES.values()}


def test_the_contract_is_documented():
    for name in ("kernel", "name", "width", "n_rows_kept"):
        assert f"\n{name} :" in inspect.getdoc(contract.Posterior)
        assert all(hasattr(make(), name) for make, _ in PROCESSES.values())
