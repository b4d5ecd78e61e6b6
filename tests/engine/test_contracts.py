"""What the engine and training promise to those who extend them, each promise kept by an example.

A table that is never an array, a basis of bumps, a likelihood with a parameter of its own, and
tapes that travel: none of them is known to the package.
"""

import ast
import pickle
from dataclasses import dataclass, replace
from pathlib import Path

import inside
import numpy as np
import pytest
from conftest import BOUNDS, agree, agree_evaluations, agree_posteriors, make_case
from gaussian import Gaussian
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import skgp_sparse
from skgp_sparse import bounds
from skgp_sparse.likelihoods import Probit
from skgp_sparse.posteriors import InducingPoints, PosteriorMethod
from skgp_sparse.solvers import LBFGS

TIGHT = inside.Inner(max_iter=1000, tol=1e-18)
METHODS = {
    "vfe": inside.Variational(Probit(), False),
    "new": inside.Variational(Probit(), True),
    "gfitc": inside.ExpectationPropagation(Probit(), 1.0),
}
KERNEL = ConstantKernel(1.3) * RBF([0.8, 1.2]) + WhiteKernel(0.2)


def fitted(rows, kernel, model, initialise, is_exact=False, **settings):
    """The fit with 20 inducing points, without restarts."""
    given = {"solver": LBFGS(), "n_restarts": 0, "max_iter": 15, "tol": 1e-3, "start_rows": 100}
    job = inside.Job(
        name="",
        rows=rows,
        kernel=kernel,
        objectives=model,
        posterior_method=inside.Exact() if is_exact else InducingPoints(),
        points=inside.Points(20, initialise),
        settings=inside.Settings(**given | {"options": inside.Options()} | settings),
    )
    return job.posterior_method.fit(job, np.random.RandomState(0))


# -- a table that is never an array ----------------------------------------------------


class Drawn(inside.Dataset):
    """Rows that a formula makes from their numbers, whenever a block is asked for."""

    n_features, n_targets, weight = 2, 1, None

    def __init__(self, n, labels=False):
        self.n, self.labels, self.longest = n, labels, 0

    def __len__(self):
        return self.n

    def block(self, rows):
        """Rows of a slice or of an index array."""
        index = np.arange(self.n)[rows]
        self.longest = max(self.longest, len(index))
        drawn = 4.0 * np.modf(1e4 * np.sin(index[:, None] * [1.1, 2.3, 3.7] + 1.0))[0]
        y = np.sin(2 * drawn[:, 0]) + drawn[:, 1] + 0.3 * drawn[:, 2]
        y = np.where(y > 0, 1.0, -1.0) if self.labels else y
        return inside.Batch(drawn[:, :2], y[:, None], 0.0, 1.0)

    def subset(self, rows):
        """A table in memory."""
        return as_array(self, rows)


def as_array(drawn, rows=slice(None)):
    block = drawn.block(rows)
    return inside.ArrayDataset(block.X, block.y)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of 64 rows."""
    monkeypatch.setattr(inside.dataset, "_BLOCK_BYTES", 1)


@pytest.mark.parametrize("bound", ["titsias_new", "fitc"])
def test_regression_needs_no_array_of_the_rows(bound, small_blocks):
    drawn, Z = Drawn(500), inside.InducingBasis(np.random.RandomState(0).normal(size=(12, 2)))
    problems = [inside.Problem(KERNEL, Z, rows, BOUNDS[bound]) for rows in (drawn, as_array(drawn))]
    drawn.longest = 0
    agree_evaluations(*map(inside.collapsed.value_and_gradient, problems), 1e-13)
    posteriors = [inside.collapsed.conclude(problem)[1] for problem in problems]
    agree_posteriors(*posteriors, as_array(drawn).X[:50], 1e-13)
    assert drawn.longest == 500 and len(problems[0].layout().blocks) > 5


@pytest.mark.second(share=0.38)
@pytest.mark.parametrize("memory", [np.inf, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_classification_needs_no_array_of_the_rows(method, memory, small_blocks):
    drawn, Z = Drawn(500, labels=True), np.random.RandomState(0).normal(size=(12, 2))
    found = []
    for rows in (drawn, as_array(drawn)):
        model = inside.SiteObjectives(METHODS[method], TIGHT)
        found.append(model.sparse(rows, Z, inside.Options(memory=memory)))
    drawn.longest = 0
    evaluation = found[0].value_and_gradient(KERNEL, inputs=True)
    assert drawn.longest < 100
    agree_evaluations(evaluation, found[1].value_and_gradient(KERNEL, inputs=True), 1e-10)
    agree_posteriors(
        *(one.conclude(KERNEL).posterior for one in found), as_array(drawn).X[:50], 1e-10
    )


@pytest.mark.second(share=0.5)
@pytest.mark.filterwarnings("ignore:The optimizer stopped")
@pytest.mark.parametrize("labels", [False, True])
def test_a_whole_fit_needs_no_array_of_the_rows(labels):
    drawn = Drawn(1500, labels)
    model = (
        inside.SiteObjectives(METHODS["new"])
        if labels
        else inside.GaussianObjectives(bounds.TitsiasNew())
    )
    kernel = KERNEL.k1 if labels else KERNEL
    fits = [
        fitted(rows, kernel, model, lambda rows, *_: rows.block(slice(0, 20)).X)
        for rows in (drawn, as_array(drawn))
    ]
    assert fits[0].n_iter == fits[1].n_iter > 3
    agree(fits[0].value, fits[1].value, 1e-10)


# -- another basis ---------------------------------------------------------------------


@dataclass(frozen=True)
class Bumps(inside.Basis):
    """Functions ``exp(-|x - z|^2 / 2)`` in length scales, whose centres are parameters."""

    parameters: np.ndarray  # (m, d)

    def moved(self, parameters):
        return Bumps(parameters)

    def units(self, kernel, spread):
        return 0.5, 2.0

    @property
    def size(self):
        return len(self.parameters)

    def at(self, kernel, options):
        return FixedBumps(kernel, self.parameters)


@dataclass(frozen=True)
class FixedBumps(inside.Features):
    kernel: object
    centres: np.ndarray

    complete = True

    @property
    def size(self):
        return len(self.centres)

    def raw(self, X):
        offsets = self._offsets(X)
        return np.sqrt(self.kernel.k1.k1.constant_value) * np.exp(-0.5 * (offsets**2).sum(axis=2))

    def linearise(self, X):
        return self.raw(X), X

    def pull(self, tape, K_bar, inputs):
        offsets, of_noise = self._offsets(tape), np.zeros(len(self.kernel.k2.theta))
        pulled = (K_bar * self.raw(tape))[:, :, None]
        of_lengths = np.sum(pulled * offsets**2, axis=(0, 1))
        theta_bar = np.concatenate([[0.5 * pulled.sum()], of_lengths, of_noise])
        return theta_bar, np.sum(pulled * offsets, axis=0) / self.kernel.k1.k2.length_scale

    def slopes(self, X, K_bar):
        pulled = (K_bar * self.raw(X))[:, :, None] * self._offsets(X)
        return -np.sum(pulled, axis=1) / self.kernel.k1.k2.length_scale

    def residual_variance(self, X, V, signal):
        return np.zeros(len(X))

    def residual_covariance(self, X, V):
        return np.zeros((len(X), len(X)))

    def _offsets(self, X):
        return (X[:, None] - self.centres) / self.kernel.k1.k2.length_scale


def bumps_case():
    case = make_case("rbf_ard", n=60)
    return case._replace(kernel=KERNEL), np.random.RandomState(0).normal(size=(5, 2))


def directional_slopes(value, at, n=6, step=1e-5):
    """Directions, and slopes of `value` along them by central differences."""
    for direction in np.random.RandomState(1).normal(size=(n, *np.shape(at))):
        up, down = value(at + step * direction), value(at - step * direction)
        yield direction, (up - down) / (2 * step)


@pytest.mark.parametrize("bound", BOUNDS)
def test_gradients_in_another_basis(bound):
    case, centres = bumps_case()
    objective = inside.CollapsedObjective(case.rows(), BOUNDS[bound], Bumps(centres))
    check_objective(objective, case.kernel, True, 1e-5, 1e-6)
    moved = objective.at(basis=centres + 1.0)
    np.testing.assert_array_equal(moved.basis.parameters, centres + 1.0)
    assert moved.inducing_points is None


@pytest.mark.parametrize("bound", ["vfe", "titsias_new", "fitc"])
def test_another_basis_is_bayesian_linear_regression_on_its_features(bound):
    case, centres = bumps_case()
    problem = inside.Problem(case.kernel, Bumps(centres), case.rows(), BOUNDS[bound])
    check_linear_model(problem, case, problem.features().raw)


def check_linear_model(problem, case, features):
    """Value and posterior (which is returned) beside dense algebra, with noise of 0.2."""
    at = case.X[:7] + 0.1
    V, A = features(case.X), features(at)
    covariance, cross = V @ V.T + 0.2 * np.eye(len(V)), A @ V.T
    value = multivariate_normal(np.zeros(len(V)), covariance).logpdf(case.y)
    agree(inside.collapsed.value(problem), value, 1e-10)
    found = inside.collapsed.conclude(problem)[1]
    expected = A @ A.T - cross @ np.linalg.solve(covariance, cross.T)
    agree(found.mean(at)[:, 0], cross @ np.linalg.solve(covariance, case.y), 1e-10)
    agree(found.covariance(at), expected, 1e-10)
    agree(found.mean_and_variance(at)[1], expected.diagonal(), 1e-10)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_sites_in_another_basis(method):
    case, centres = bumps_case()
    rows = replace(case.rows(), y=np.where(case.y > 0, 1.0, -1.0)[:, None])
    for kernel in (case.kernel, KERNEL.k1 + WhiteKernel(0.2, "fixed")):
        objective = inside.SiteObjective(
            rows, METHODS[method], Bumps(centres), inside.Options(), TIGHT
        )
        check_objective(objective, kernel, move_basis=True)


def check_objective(objective, kernel, move_basis, step=1e-4, tolerance=1e-5):
    """Every block of an objective against central differences."""
    function = inside.VectorFunction(objective, kernel, move_basis)
    start = function.pack()
    gradient = function(start)[1]

    def value(vector):
        at, candidate = function.at(vector)
        return at.value(candidate)

    for direction, slope in directional_slopes(value, start, step=step):
        agree(gradient @ direction, slope, tolerance)


# -- a likelihood with a parameter of its own ------------------------------------------


@pytest.mark.parametrize("propagation", [False, True])
@pytest.mark.parametrize("few", [False, True])
def test_a_parameter_of_a_likelihood_is_a_block_like_others(few, propagation):
    case = make_case("rbf_ard", "known", n=50)._replace(noise=0.0)
    likelihood = Gaussian(0.3, (1e-3, 1e3))
    method = inside.Variational(likelihood, True)
    if propagation:
        method = inside.ExpectationPropagation(likelihood, 1.0)
    model = inside.SiteObjectives(method, TIGHT)
    objective = model.sparse(case.rows(), case.Z, inside.Options())
    if few:
        objective = replace(model.exact(case.rows(), inside.Options()), inner=TIGHT)
    names = [block.name for block in objective.blocks(case.kernel, not few)]
    assert names == ["kernel", "likelihood", *["basis"] * (not few)]
    check_objective(objective, case.kernel, move_basis=not few)


def test_the_variance_of_a_gaussian_likelihood_is_that_of_white_noise():
    case = make_case("rbf_ard", "known", n=50)._replace(noise=0.0)
    method = inside.Variational(Gaussian(0.3, (1e-3, 1e3)), False)
    found = inside.SiteObjectives(method, TIGHT).sparse(
        case.rows(), case.Z, inside.Options(jitter=case.jitter)
    )
    mine = found.value_and_gradient(case.kernel, inputs=True)
    noisy = case._replace(kernel=case.kernel + WhiteKernel(0.3))
    its = inside.collapsed.value_and_gradient(noisy.problem(bounds.Titsias()))
    agree(mine.value, its.value, 1e-9)
    agree(mine.theta_bar, its.theta_bar[:-1], 1e-8)
    agree(mine.gradient["likelihood"], its.theta_bar[-1:], 1e-8)
    agree(mine.Z_bar, its.Z_bar, 1e-8)


@pytest.mark.parametrize("few", [False, True])
def test_a_fit_learns_the_parameter_of_its_likelihood(few):
    rng = np.random.RandomState(0)
    X = rng.uniform(-2, 2, (400, 1))
    y = np.sin(3 * X) + 0.2 * rng.normal(size=X.shape)
    rows = inside.ArrayDataset(X, y)
    model = inside.SiteObjectives(inside.Variational(Gaussian(1.0, (1e-4, 1e2)), True))
    grid = np.linspace(-2, 2, 20)[:, None]
    how = {"is_exact": few, "max_iter": 100, "tol": 1e-4}
    fit = fitted(rows, ConstantKernel() * RBF(), model, lambda *_: grid, **how)
    assert (fit.posterior.name == "exact") == few
    assert abs(fit.objective.site_method.likelihood.variance - 0.04) < 0.008


# -- sites that say nothing ------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_precision_of_zero_divides_nothing(method):
    case = make_case("rbf_ard", "known", n=200)._replace(noise=0.0)
    rows = replace(case.rows(), y=np.where(case.y > 0, 1.0, -1.0)[:, None])
    found = inside.SiteObjectives(METHODS[method], TIGHT).sparse(rows, case.Z, inside.Options())
    loop, solution, _ = found.infer(case.kernel)
    projected, sites = loop.projected, loop.bundles.split(solution.state)
    for part in sites.parts:
        part[..., ::3] = 0.0
    with np.errstate(all="raise"):
        cores = projected.solve(sites)
        gradient = projected.gradient(cores, sites, [METHODS[method].surrogate(0.7)], True)
    assert all(np.isfinite(part).all() for part in gradient.values())


# -- what waits is plain data ----------------------------------------------------------


@pytest.mark.parametrize("bound", ["titsias_new", "fitc"])
def test_what_waits_between_two_visits_travels(bound, monkeypatch):
    case = make_case("sum", "nested", n=150, weighted=True)
    problem = case.problem(BOUNDS[bound])
    whole = inside.collapsed.value_and_gradient(problem)
    visit = inside.collapsed.visit_of(problem)
    _, waiting = inside.collapsed.forward_pass(visit, gradient=True)
    assert all(part is not None for part in waiting)
    travelled = pickle.loads(pickle.dumps(waiting))
    evaluate, asked = inside.collapsed.forward_pass, []

    def travelling(*args, **others):
        asked.append(args)
        return evaluate(*args, **others)[0], travelled

    monkeypatch.setattr(inside.collapsed, "forward_pass", travelling)
    agree_evaluations(inside.collapsed.value_and_gradient(problem), whole, 1e-14)
    assert len(asked) == 1


# -- the contracts list what callers use -----------------------------------------------

ROOT = Path(skgp_sparse.__file__).parent
ROOMS = "", "inference", "parameters", "explain", "observations", "posteriors"
CALLERS = [path for room in ROOMS for path in (ROOT / room).glob("*.py")]
CONTRACTS = {
    "objective": inside.contracts.SparseFit,
    "objectives": inside.contracts.ObjectiveFactory,
    "site_method": inside.contracts.SiteMethod,
    "solver": inside.Solver,
    "posterior_method": PosteriorMethod,
    "family": inside.ObservationModel,
}
OWN = {  # what only the objective's own model or the package's own classes ask
    "objective": {
        *("site_method", "likelihood", "infer", "for_users"),
        *("bound", "options", "problem", "starts", "left_out", "metric", "total", "_densities"),
        *("near", "sites", "after_sweeps", "cavities", "inner_state", "inner", "inputs"),
        *("shift", "log_ratio", "divergences"),
    },
    "objectives": {"site_method", "inner"},
    "site_method": {"spherical", "expectations"},
    "solver": set(),
    "posterior_method": {"rival"},
    "family": {"multi_class", "site_method", "sigmoid"},
}


@pytest.mark.second(share=0.24)
@pytest.mark.parametrize("name", CONTRACTS)
def test_contracts_list_every_member_that_callers_use(name):
    contract = CONTRACTS[name]
    listed = set(dir(contract)) | {
        word
        for base in contract.__mro__
        for word in (*(base.__doc__ or "").split(), *vars(base).get("__annotations__", ()))
    }
    for path in CALLERS:
        if path.stem == "acquisition":  # whose models are estimators
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            owner = getattr(node, "value", None) if isinstance(node, ast.Attribute) else None
            if name in (getattr(owner, "id", None), getattr(owner, "attr", None)):
                assert node.attr in listed | OWN[name], f"{path.name}: {name}.{node.attr}"
