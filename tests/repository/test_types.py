"""Types: mypy passes on the package and on scripts of users."""

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

import skgp_sparse

api = pytest.importorskip("mypy.api")
tomllib = pytest.importorskip("tomllib")  # of Python 3.11

PACKAGE = Path(skgp_sparse.__file__).parent
SETTINGS = PACKAGE.parent / "pyproject.toml"
pytestmark = pytest.mark.xdist_group("mypy")  # one cache

GOOD = """
import numpy as np
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import GridSearchCV
from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP, Bound
from skgp_sparse.displays import PredictionBandDisplay
from skgp_sparse.hyperpriors import LogNormalLengthScales
from skgp_sparse.kernels import Columns, evaluate
from skgp_sparse.likelihoods import Poisson
from skgp_sparse.metrics import crps, log_predictive_density_scorer
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, Neighbors
from skgp_sparse.solvers import Stochastic
from skgp_sparse.sources import Source, Stream
class Twice(Bound):
    def penalty(self, x: np.ndarray) -> tuple[np.ndarray, float]:
        return x, 1.0
X = np.linspace(0.0, 10.0, 50)[:, None]
y = np.sin(X[:, 0])
model = SparseGPRegressor(Columns(RBF(), [0]), bound=Twice(), n_inducing=10, random_state=0)
mean: np.ndarray = model.fit(X, y).predict(X)
mean, std = model.predict(X, return_std=True)
mean, covariance = model.predict(X, return_cov=True)
mean, slope = model.predict(X, return_gradient=True)
mean, std, slope, slope_of_std = model.predict(X, return_std=True, return_gradient=True)
limits: tuple[float | None, int] = (model.time_limit, model.max_iter)
lower, upper = model.predict_interval(X, coverage=0.8, side="both")
score: float = model.score(X, y) + crps(y, mean, std) + log_predictive_density_scorer(model, X, y)
value: float = model.log_marginal_likelihood()
value, gradient = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
display: PredictionBandDisplay = PredictionBandDisplay.from_estimator(model, X, y).plot()
for posterior in (InducingPoints(n_mean=20), FourierFeatures(n_components=50), Neighbors(50)):
    SparseGPRegressor(posterior=posterior, prior=LogNormalLengthScales(variance=1.0)).fit(X, y)
sources: list[Source] = [Stream(lambda: iter([(X, y)]))]
SparseGPRegressor(likelihood=Poisson(), solver=Stochastic(), bound=PEP(0.3)).fit(sources[0])
search = GridSearchCV(model, {"bound": ["titsias"]}, scoring=log_predictive_density_scorer)
loo, functions = model.loo_predict(), model.sample_functions(3)
print(loo.log_density.sum(), model.evidence_bounds().upper)
labels = SparseGPClassifier(multi_class="softmax").fit([[0.0], [1.0]], ["a", "b"])
probabilities: np.ndarray = labels.predict_proba(X)
positions, spread = BayesianGPLVM(2, n_inducing=5).fit(X).transform(X, return_std=True)
K: np.ndarray = evaluate(RBF(), X, X)
"""
BAD = {
    "SparseGPRegressor(bound=3)": '"bound"',
    'SparseGPRegressor(posterior="exakt")': '"posterior"',
    "SparseGPClassifier(n_inducing=2.5)": '"n_inducing"',
    'SparseGPRegressor().predict_interval([[0.0]], method="jackknife")': '"method"',
    "SparseGPRegressor().fit(object())": '"fit"',
    "SparseGPRegressor().predict([[0.0]], return_std=True).shape": '"shape"',
    "PEP(alpha=None)": '"alpha"',
}
IMPORTS = """
from skgp_sparse import SparseGPClassifier, SparseGPRegressor
from skgp_sparse.bounds import PEP

"""


def complaints(*arguments):
    """What mypy prints of errors, and its status."""
    text, trouble, status = api.run([*map(str, arguments), "--no-error-summary"])
    assert not trouble, trouble
    return text.splitlines(), status


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("mypy")


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python in which the package is installed: its data files are those of pyproject.toml."""
    home = tmp_path_factory.mktemp("installed")
    site = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    data = tomllib.loads(SETTINGS.read_text())["tool"]["setuptools"]["package-data"]["skgp_sparse"]
    files = [*PACKAGE.rglob("*.py"), *(file for kind in data for file in PACKAGE.glob(kind))]
    for file in files:
        target = site / "skgp_sparse" / file.relative_to(PACKAGE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (home / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    (home / "bin").mkdir()
    (home / "bin" / "python").symlink_to(Path(sys.executable).resolve())
    return home / "bin" / "python"


@pytest.fixture
def of_user(tmp_path, monkeypatch, cache, python):
    """What mypy says of a script of a user, who has the package installed."""
    monkeypatch.chdir(tmp_path)
    for name in ("MYPYPATH", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "mypy.ini").write_text("[mypy]\n[mypy-sklearn.*]\nignore_missing_imports = true\n")

    def check(text):
        Path("script.py").write_text(text)
        options = ["--strict", "--allow-any-generics", "--cache-dir", cache / "user"]
        return complaints(*options, "--python-executable", python, "script.py")

    return check


@pytest.mark.second(share=0)
def test_mypy_passes_on_the_package(cache, monkeypatch):
    monkeypatch.chdir(PACKAGE.parent)
    assert complaints("--config-file", SETTINGS, "--cache-dir", cache / "package") == ([], 0)


@pytest.mark.second(share=0)
def test_scripts_of_users_pass(of_user):
    assert of_user(GOOD) == ([], 0)


@pytest.mark.second(share=0)
def test_wrong_calls_of_users_do_not_pass(of_user):
    errors, status = of_user(IMPORTS + "\n".join(BAD))
    first = IMPORTS.count("\n") + 1
    assert status == 1
    for line, (call, about) in enumerate(BAD.items(), start=first):
        assert any(one.startswith(f"script.py:{line}: error") and about in one for one in errors), (
            call,
            errors,
        )
