"""One small function for each client of scikit-learn, run by `clients.py`.

A trial gets a `Side`, whose estimators are ours or scikit-learn's with the same arguments. It works
if it ends without an exception. It has a flaw if it returns words that name one. ::

    python client_trials.py "shap: mean" ours        # one trial, here
    python client_trials.py                          # names and packages of all
"""

import copy
import io
import json
import pickle
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn import clone, config_context
from sklearn.datasets import make_classification, make_friedman1
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

TRIALS = {}  # name: (packages, function)
N_FIT = 120
COLUMNS = ["a", "b", "c", "d", "e"]
X, Y = make_friedman1(N_FIT + 40, n_features=5, noise=0.5, random_state=0)
X, X_TEST, Y, Y_TEST = X[:N_FIT], X[N_FIT:], Y[:N_FIT], Y[N_FIT:]
XC, YC = make_classification(N_FIT, 5, n_informative=3, random_state=0)
X3, Y3 = make_classification(N_FIT, 5, n_informative=3, n_classes=3, random_state=0)


class Side(NamedTuple):
    """The estimators of one library."""

    name: str
    Regressor: type
    Classifier: type

    def regressor(self, **options):
        kernel = ConstantKernel() * RBF(np.ones(5)) + WhiteKernel()
        return self.Regressor(kernel, **{"normalize_y": True, "random_state": 0} | options)

    def automatic(self, **options):
        """A regressor for any number of columns."""
        kernel = ConstantKernel() * RBF() + WhiteKernel()
        return self.Regressor(kernel, normalize_y=True, random_state=0, **options)

    def classifier(self, **options):
        return self.Classifier(ConstantKernel() * RBF(), random_state=0, **options)


def sides():
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor

    from skgp_sparse import SparseGPClassifier, SparseGPRegressor

    return {
        "ours": Side("ours", SparseGPRegressor, SparseGPClassifier),
        "theirs": Side("theirs", GaussianProcessRegressor, GaussianProcessClassifier),
    }


def trial(name, *packages):
    """Decorator: a trial, and what to install for it."""

    def add(function):
        TRIALS[name] = packages, function
        return function

    return add


def same(one, two, tolerance=1e-6):
    np.testing.assert_allclose(one, two, rtol=tolerance, atol=tolerance)


def skill(model, at_least=0.7):
    """Words of a flaw if held-out rows are predicted badly."""
    score = model.score(X_TEST, Y_TEST)
    return None if score > at_least else f"R² of held-out rows {score:.2f}"


# -- scikit-learn itself ----------------------------------------------------------------------


@trial("scikit-learn: pipeline with feature names and set_output", "pandas")
def _(side):
    import pandas as pd

    table = pd.DataFrame(X, columns=COLUMNS)
    model = make_pipeline(StandardScaler(), side.regressor()).set_output(transform="pandas")
    model.fit(table, Y)
    assert list(model[-1].feature_names_in_) == COLUMNS
    assert model.predict(table, return_std=True)[1].shape == (N_FIT,)


@trial("scikit-learn: column transformer with categories", "pandas")
def _(side):
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0.5, "yes", "no")})
    columns = make_column_transformer(
        (StandardScaler(), ["a"]), (OneHotEncoder(sparse_output=False), ["b"])
    )
    make_pipeline(columns, side.automatic()).fit(table, Y).predict(table)


@trial("scikit-learn: grid search over parts of the kernel")
def _(side):
    from sklearn.model_selection import GridSearchCV

    grid = {"kernel__k2__noise_level": [0.1, 1.0], "optimizer": [None]}
    search = GridSearchCV(side.regressor(), grid, cv=3, n_jobs=2).fit(X, Y)
    assert search.best_estimator_.kernel_ is not None


@trial("scikit-learn: halving search over kernels")
def _(side):
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401
    from sklearn.model_selection import HalvingGridSearchCV

    grid = {"kernel": [RBF(), ConstantKernel() * RBF(2.0)]}
    HalvingGridSearchCV(side.classifier(), grid, cv=3, random_state=0).fit(XC, YC)


@trial("scikit-learn: cross-validation that returns its estimators")
def _(side):
    from sklearn.model_selection import cross_validate

    found = cross_validate(side.regressor(), X, Y, cv=3, return_estimator=True, n_jobs=2)
    for model in found["estimator"]:
        value = model.log_marginal_likelihood(model.kernel_.theta)
        same(value, model.log_marginal_likelihood_value_, 1e-4)


@trial("scikit-learn: cross_val_predict, learning and validation curves")
def _(side):
    from sklearn.model_selection import cross_val_predict, learning_curve, validation_curve

    cross_val_predict(side.classifier(), XC, YC, cv=3, method="predict_proba")
    learning_curve(side.regressor(), X, Y, cv=3, train_sizes=[30, 60])
    validation_curve(side.regressor(), X, Y, cv=3, param_name="alpha", param_range=[1e-3, 0.1])


@trial("scikit-learn: permutation importance and partial dependence")
def _(side):
    from sklearn.inspection import partial_dependence, permutation_importance

    model = side.regressor().fit(X, Y)
    importance = permutation_importance(model, X_TEST, Y_TEST, n_repeats=3, random_state=0)
    for columns in ([0], [(1, 2)]):
        partial_dependence(model, X, columns, grid_resolution=8)
    return None if importance.importances_mean.argmax() == 3 else "wrong order"


@trial("scikit-learn: decision boundary", "matplotlib")
def _(side):
    import matplotlib

    matplotlib.use("Agg")
    from sklearn.inspection import DecisionBoundaryDisplay

    for labels in (YC, Y3):
        DecisionBoundaryDisplay.from_estimator(side.classifier().fit(XC[:, :2], labels), XC[:, :2])


@trial("scikit-learn: bagging, boosting, voting and stacking of regressors")
def _(side):
    from sklearn.ensemble import (
        AdaBoostRegressor,
        BaggingRegressor,
        StackingRegressor,
        VotingRegressor,
    )

    BaggingRegressor(side.regressor(), 3, max_samples=0.5, random_state=0).fit(X, Y)
    AdaBoostRegressor(side.regressor(), n_estimators=2, random_state=0).fit(X, Y)
    both = [("one", side.regressor()), ("two", side.automatic())]
    VotingRegressor(both).fit(X, Y)
    return skill(StackingRegressor(both, cv=3).fit(X, Y))


@trial("scikit-learn: bagging, boosting, voting and stacking of classifiers")
def _(side):
    from sklearn.ensemble import (
        AdaBoostClassifier,
        BaggingClassifier,
        StackingClassifier,
        VotingClassifier,
    )

    BaggingClassifier(side.classifier(), 3, random_state=0).fit(XC, YC)
    both = [("one", side.classifier()), ("two", side.classifier())]
    VotingClassifier(both, voting="soft").fit(XC, YC)
    StackingClassifier(both, cv=3).fit(XC, YC)
    try:
        AdaBoostClassifier(side.classifier(), n_estimators=2).fit(XC, YC)
    except ValueError as error:
        assert "sample_weight" in str(error)
        return "no AdaBoostClassifier, because there is no sample_weight"


@trial("scikit-learn: calibration and a tuned threshold")
def _(side):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.model_selection import TunedThresholdClassifierCV

    CalibratedClassifierCV(side.classifier(), cv=3).fit(XC, YC).predict_proba(XC)
    TunedThresholdClassifierCV(side.classifier(), cv=3).fit(XC, YC).predict(XC)


@trial("scikit-learn: one-vs-rest, one-vs-one and output codes")
def _(side):
    from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier

    code = OutputCodeClassifier(side.classifier(), random_state=0)
    for meta in (
        OneVsOneClassifier(side.classifier()),
        OneVsRestClassifier(side.classifier()),
        code,
    ):
        assert meta.fit(X3, Y3).score(X3, Y3) > 0.6


@trial("scikit-learn: several outputs and chains")
def _(side):
    from sklearn.multioutput import (
        ClassifierChain,
        MultiOutputClassifier,
        MultiOutputRegressor,
        RegressorChain,
    )

    MultiOutputRegressor(side.regressor()).fit(X, np.column_stack([Y, -Y])).predict(X)
    RegressorChain(side.automatic()).fit(X, np.column_stack([Y, -Y])).predict(X)
    labels = np.column_stack([YC, 1 - YC])
    MultiOutputClassifier(side.classifier()).fit(XC, labels).predict_proba(XC)
    ClassifierChain(side.classifier()).fit(XC, labels).predict_proba(XC)


@trial("scikit-learn: transformed targets")
def _(side):
    from sklearn.compose import TransformedTargetRegressor

    TransformedTargetRegressor(side.regressor(), func=np.log, inverse_func=np.exp).fit(
        X, np.exp(Y / 10)
    ).predict(X)


@trial("scikit-learn: self-training")
def _(side):
    from sklearn.semi_supervised import SelfTrainingClassifier

    labels = np.where(np.arange(N_FIT) % 3, -1, YC)
    SelfTrainingClassifier(side.classifier(), max_iter=2).fit(XC, labels).predict(XC)


@trial("scikit-learn: imputation with samples of the posterior")
def _(side):
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    holes = np.where(np.random.RandomState(0).uniform(size=X.shape) < 0.1, np.nan, X)
    imputer = IterativeImputer(side.automatic(), sample_posterior=True, max_iter=1, random_state=0)
    assert np.isfinite(imputer.fit_transform(holes)).all()


@trial("scikit-learn: sequential selection of columns")
def _(side):
    from sklearn.feature_selection import SequentialFeatureSelector

    selector = SequentialFeatureSelector(side.automatic(), n_features_to_select=2, cv=3)
    assert selector.fit(X, Y).get_support().sum() == 2


@trial("scikit-learn: routed sample weights")
def _(side):
    from sklearn.metrics import get_scorer
    from sklearn.model_selection import cross_validate

    weight = np.ones(N_FIT)
    with config_context(enable_metadata_routing=True):
        try:
            model = side.regressor().set_fit_request(sample_weight=True)
        except AttributeError:
            return "there is no sample_weight"
        r2 = get_scorer("r2").set_score_request(sample_weight=False)
        cross_validate(model, X, Y, cv=3, params={"sample_weight": weight}, scoring=r2)


@trial("scikit-learn: frozen estimators, clones, representation")
def _(side):
    from sklearn.frozen import FrozenEstimator
    from sklearn.utils import estimator_html_repr

    model = side.regressor().fit(X, Y)
    same(FrozenEstimator(model).fit(X, Y).predict(X), model.predict(X))
    assert repr(clone(model)) == repr(side.regressor())
    assert "fitted" in estimator_html_repr(model)


@trial("scikit-learn: copies, pickles and joblib", "joblib", "cloudpickle")
def _(side):
    import cloudpickle
    import joblib

    model, file = side.regressor().fit(X, Y), io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    others = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), joblib.load(file)
    for other in (*others, cloudpickle.loads(cloudpickle.dumps(model))):
        same(other.predict(X_TEST), model.predict(X_TEST))
        other.log_marginal_likelihood(model.kernel_.theta)


@trial("scikit-learn: attributes X_train_ and y_train_")
def _(side):
    model = side.regressor().fit(X, Y)
    same(model.X_train_, X)
    same(model.y_train_, (Y - Y.mean()) / Y.std())


# -- tables and arrays -------------------------------------------------------------------------


@trial("polars: tables", "polars", "pyarrow")
def _(side):
    import polars as pl

    table = pl.DataFrame({name: X[:, k] for k, name in enumerate(COLUMNS)})
    model = side.regressor().fit(table, pl.Series(Y))
    same(model.predict(table), model.predict(X))
    assert list(model.feature_names_in_) == COLUMNS


@trial("pyarrow: tables", "pyarrow")
def _(side):
    import pyarrow as pa

    table = pa.table({name: X[:, k] for k, name in enumerate(COLUMNS)})
    same(side.regressor().fit(table, Y).predict(table), side.regressor().fit(X, Y).predict(X))


@trial("xarray: arrays", "xarray")
def _(side):
    import xarray as xr

    rows = xr.DataArray(X, dims=("row", "column"))
    model = side.regressor().fit(rows, xr.DataArray(Y, dims="row"))
    same(model.predict(rows), model.predict(X))


@trial("array-api-strict: arrays with dispatch", "array-api-strict")
def _(side):
    import os

    os.environ["SCIPY_ARRAY_API"] = "1"
    import array_api_strict as xp

    with config_context(array_api_dispatch=True):
        model = side.regressor().fit(xp.asarray(X), xp.asarray(Y))
        assert np.asarray(model.predict(xp.asarray(X_TEST))).shape == (40,)


@trial("pandas: text and times are refused in words", "pandas")
def _(side):
    import pandas as pd

    taken = []
    for what, table, y in (
        ("y of text", X, Y.astype(str)),
        ("a lone column of times", pd.DataFrame({"a": pd.date_range("2020", periods=N_FIT)}), Y),
    ):
        try:
            side.automatic().fit(table, y)
            taken.append(what)
        except (TypeError, ValueError):
            pass
    return f"takes {' and '.join(taken)}" if taken else None


@trial("dask-ml: parallel prediction and incremental fits", "dask-ml", "dask[array]")
def _(side):
    import dask.array as da
    from dask_ml.wrappers import Incremental, ParallelPostFit

    rows = da.from_array(X, chunks=(40, 5))
    ParallelPostFit(side.regressor()).fit(X, Y).predict(rows).compute()
    if not hasattr(side.regressor(), "partial_fit"):
        return "there is no partial_fit"
    Incremental(side.regressor()).fit(rows, da.from_array(Y, chunks=40)).predict(X)


@trial("sklearn-pandas: a mapper of columns", "sklearn-pandas", "six")
def _(side):
    import pandas as pd
    from sklearn_pandas import DataFrameMapper

    table = pd.DataFrame(X, columns=COLUMNS)
    mapper = DataFrameMapper([([name], StandardScaler()) for name in COLUMNS])
    make_pipeline(mapper, side.regressor()).fit(table, Y).predict(table)


# -- explanations ------------------------------------------------------------------------------


@trial("shap: mean and deviation", "shap")
def _(side):
    import shap

    model = side.regressor().fit(X, Y)
    background = shap.maskers.Independent(X, max_samples=30)
    for predict in (model.predict, lambda X: model.predict(X, return_std=True)[1]):
        explanation = shap.Explainer(predict, background)(X[:4])
        same(explanation.values.sum(1) + explanation.base_values, predict(X[:4]))


@trial("shap: kernel explainer of a classifier", "shap")
def _(side):
    import shap

    model = side.classifier().fit(X3, Y3)
    values = shap.KernelExplainer(model.predict_proba, X3[:20]).shap_values(X3[:2], silent=True)
    assert np.shape(values) == (2, 5, 3)


@trial("lime: a row of a table", "lime")
def _(side):
    from lime.lime_tabular import LimeTabularExplainer

    model = side.classifier().fit(XC, YC)
    LimeTabularExplainer(XC).explain_instance(XC[0], model.predict_proba, num_samples=200)


@trial("dalex: profiles and importance", "dalex", "pandas")
def _(side):
    import dalex
    import pandas as pd

    table = pd.DataFrame(X, columns=COLUMNS)
    explainer = dalex.Explainer(side.regressor().fit(table, Y), table, Y, verbose=False)
    explainer.model_parts(B=2)
    explainer.model_profile(N=20, verbose=False)


@trial("interpret: partial dependence and Morris", "interpret")
def _(side):
    from interpret.blackbox import MorrisSensitivity, PartialDependence

    model = side.regressor().fit(X, Y)
    PartialDependence(model, X).explain_global()
    MorrisSensitivity(model, X).explain_global()


@trial("eli5: permutation importance", "eli5")
def _(side):
    import eli5
    from eli5.sklearn import PermutationImportance

    found = PermutationImportance(side.regressor().fit(X, Y), random_state=0).fit(X, Y)
    eli5.format_as_text(eli5.explain_weights(found))


@trial("PyALE: accumulated effects", "pyale", "pandas")
def _(side):
    import pandas as pd
    from PyALE import ale

    table = pd.DataFrame(X, columns=COLUMNS)
    model = side.regressor().fit(table, Y)
    ale(X=table, model=model, feature=["a"], grid_size=10, include_CI=False, plot=False)


@trial("lofo: importance by leaving columns out", "lofo-importance", "pandas")
def _(side):
    import pandas as pd
    from lofo import Dataset, LOFOImportance

    table = pd.DataFrame(X, columns=COLUMNS).assign(y=Y)
    data = Dataset(table, target="y", features=COLUMNS)
    LOFOImportance(data, model=side.automatic(), cv=3, scoring="r2").get_importance()


@trial("dice-ml: counterfactuals", "dice-ml", "pandas")
def _(side):
    import dice_ml
    import pandas as pd

    table = pd.DataFrame(XC, columns=COLUMNS)
    model = side.classifier().fit(table, YC)
    data = dice_ml.Data(dataframe=table.assign(y=YC), continuous_features=COLUMNS, outcome_name="y")
    dice = dice_ml.Dice(data, dice_ml.Model(model=model, backend="sklearn"), method="random")
    dice.generate_counterfactuals(table[:1], total_CFs=1, desired_class="opposite", random_seed=0)


@trial("yellowbrick: residuals and learning curves", "yellowbrick", "matplotlib")
def _(side):
    import matplotlib

    matplotlib.use("Agg")
    from yellowbrick.model_selection import LearningCurve
    from yellowbrick.regressor import ResidualsPlot

    ResidualsPlot(side.regressor()).fit(X, Y).score(X_TEST, Y_TEST)
    LearningCurve(side.regressor(), cv=3, train_sizes=[0.5, 1.0]).fit(X, Y)


@trial("model-diagnostics: calibration and dependence", "model-diagnostics", "pandas")
def _(side):
    import pandas as pd
    from model_diagnostics.calibration import compute_bias
    from model_diagnostics.scoring import SquaredError, decompose

    model = side.regressor().fit(X, Y)
    compute_bias(y_obs=Y, y_pred=model.predict(X), feature=pd.Series(X[:, 0], name="a"))
    decompose(y_obs=Y, y_pred=model.predict(X), scoring_function=SquaredError())


@trial("SALib: Sobol indices of a surrogate", "salib")
def _(side):
    from SALib.analyze import sobol
    from SALib.sample import sobol as sampler

    problem = {"num_vars": 5, "names": COLUMNS, "bounds": [[0, 1]] * 5}
    model = side.regressor().fit(X, Y)
    sobol.analyze(problem, model.predict(sampler.sample(problem, 64)))


# -- intervals, calibration, distributions -----------------------------------------------------


@trial("MAPIE: split and cross conformal regression", "mapie")
def _(side):
    from mapie.regression import CrossConformalRegressor, SplitConformalRegressor

    split = SplitConformalRegressor(side.regressor(), prefit=False)
    split.fit(X[:80], Y[:80]).conformalize(X[80:], Y[80:]).predict_interval(X_TEST)
    CrossConformalRegressor(side.regressor(), cv=3).fit_conformalize(X, Y).predict_interval(X_TEST)


@trial("MAPIE: scores with deviations", "mapie")
def _(side):
    from mapie.conformity_scores import StdConformityScore
    from mapie.regression import SplitConformalRegressor

    split = SplitConformalRegressor(
        side.regressor().fit(X, Y), conformity_score=StdConformityScore(), prefit=True
    )
    split.conformalize(X_TEST, Y_TEST).predict_interval(X_TEST)


@trial("MAPIE: quantile regression", "mapie")
def _(side):
    from mapie.regression import ConformalizedQuantileRegressor
    from sklearn.base import BaseEstimator, RegressorMixin

    class Quantile(RegressorMixin, BaseEstimator):
        def __init__(self, model, q):
            self.model, self.q = model, q

        def fit(self, X, y):
            self.n_features_in_ = X.shape[1]
            return self

        def predict(self, X):
            return self.model.predict_quantiles(X, [self.q])[:, 0]

    model = side.regressor().fit(X, Y)
    if not hasattr(model, "predict_quantiles"):
        return "there is no predict_quantiles"
    three = [Quantile(model, q).fit(X, Y) for q in (0.05, 0.95, 0.5)]
    conformal = ConformalizedQuantileRegressor(three, confidence_level=0.9, prefit=True)
    conformal.conformalize(X_TEST, Y_TEST).predict_interval(X_TEST)


@trial("MAPIE: sets of classes", "mapie")
def _(side):
    from mapie.classification import SplitConformalClassifier

    conformal = SplitConformalClassifier(side.classifier(), prefit=False)
    conformal.fit(X3[:80], Y3[:80]).conformalize(X3[80:], Y3[80:]).predict_set(X3)


@trial("crepes: conformal regressors and classifiers", "crepes")
def _(side):
    from crepes import WrapClassifier, WrapRegressor

    wrapped = WrapRegressor(side.regressor())
    wrapped.fit(X[:80], Y[:80])
    wrapped.calibrate(X[80:], Y[80:])
    wrapped.predict_int(X_TEST)
    wrapped = WrapClassifier(side.classifier())
    wrapped.fit(XC[:80], YC[:80])
    wrapped.calibrate(XC[80:], YC[80:])
    wrapped.predict_p(XC)


@trial("venn-abers: calibrated probabilities", "venn-abers")
def _(side):
    from venn_abers import VennAbersCalibrator

    calibrator = VennAbersCalibrator(side.classifier(), inductive=True, cal_size=0.3)
    calibrator.fit(XC, YC)
    calibrator.predict_proba(XC)


@trial("uncertainty-toolbox: metrics of means and deviations", "uncertainty-toolbox")
def _(side):
    import uncertainty_toolbox as uct

    mean, std = side.regressor().fit(X, Y).predict(X_TEST, return_std=True)
    uct.get_all_metrics(mean, std, Y_TEST, verbose=False)


@trial("skpro: a probabilistic regressor", "skpro", "pandas")
def _(side):
    import pandas as pd
    from skpro.regression.adapters.sklearn import SklearnProbaReg

    table, y = pd.DataFrame(X, columns=COLUMNS), pd.DataFrame({"y": Y})
    SklearnProbaReg(side.regressor()).fit(table, y).predict_proba(table).var()


@trial("ngboost: base learners", "ngboost")
def _(side):
    from ngboost import NGBRegressor

    NGBRegressor(Base=side.automatic(), n_estimators=3, verbose=False, random_state=0).fit(
        X, Y
    ).pred_dist(X).std()


# -- time series -------------------------------------------------------------------------------


def season(n=100):
    t = np.arange(n)
    return 10 + 2 * np.sin(2 * np.pi * t / 12) + 0.2 * np.random.RandomState(0).normal(size=n)


@trial("skforecast: recursive and direct forecasts", "skforecast", "pandas")
def _(side):
    import pandas as pd
    from skforecast.direct import ForecasterDirect
    from skforecast.recursive import ForecasterRecursive

    series = pd.Series(season(), index=pd.date_range("2010-01", periods=100, freq="MS"))
    forecaster = ForecasterRecursive(side.automatic(), lags=12)
    forecaster.fit(series, store_in_sample_residuals=True)
    forecaster.predict_interval(steps=6, interval=[0.05, 0.95])
    ForecasterDirect(side.automatic(), steps=2, lags=12).fit(series)


@trial("sktime: reduction to regression", "sktime", "pandas")
def _(side):
    import pandas as pd
    from sktime.forecasting.compose import make_reduction

    series = pd.Series(season(), index=pd.period_range("2010-01", periods=100, freq="M"))
    for strategy in ("recursive", "direct"):
        forecaster = make_reduction(side.automatic(), window_length=12, strategy=strategy)
        forecaster.fit(series, fh=[1, 2, 3]).predict()


@trial("mlforecast: lags of several series", "mlforecast", "pandas")
def _(side):
    import pandas as pd
    from mlforecast import MLForecast

    table = pd.DataFrame(
        {"unique_id": "a", "ds": pd.date_range("2010-01", periods=100, freq="MS"), "y": season()}
    )
    MLForecast({"gp": side.automatic()}, freq="MS", lags=[1, 2, 12]).fit(table).predict(6)


@trial("darts: a model of lags", "darts", "pandas")
def _(side):
    import pandas as pd
    from darts import TimeSeries
    from darts.models import SKLearnModel

    index = pd.date_range("2010-01", periods=100, freq="MS")
    series = TimeSeries.from_times_and_values(index, season())
    model = SKLearnModel(lags=12, model=side.automatic())
    model.fit(series)
    model.predict(6)


# -- searches and optimisation -----------------------------------------------------------------


@trial("optuna: a study", "optuna")
def _(side):
    import optuna
    from sklearn.model_selection import cross_val_score

    def objective(trial):
        model = side.regressor(alpha=trial.suggest_float("alpha", 1e-6, 1.0, log=True))
        return cross_val_score(model, X, Y, cv=3).mean()

    optuna.logging.disable_default_handler()
    optuna.create_study(direction="maximize").optimize(objective, n_trials=3)


@trial("optuna-integration: a search over parameters", "optuna-integration[sklearn]")
def _(side):
    import optuna
    from optuna_integration import OptunaSearchCV

    space = {"alpha": optuna.distributions.FloatDistribution(1e-6, 1.0, log=True)}
    OptunaSearchCV(side.regressor(), space, cv=3, n_trials=3, random_state=0).fit(X, Y)


@trial("hyperopt: a search", "hyperopt", "setuptools<81")
def _(side):
    from hyperopt import fmin, hp, tpe
    from sklearn.model_selection import cross_val_score

    def loss(alpha):
        return -cross_val_score(side.regressor(alpha=alpha), X, Y, cv=3).mean()

    rng = np.random.default_rng(0)
    space = hp.loguniform("alpha", -10, 0)
    fmin(loss, space, algo=tpe.suggest, max_evals=3, rstate=rng, show_progressbar=False)


@trial("scikit-optimize: a search over parameters", "scikit-optimize")
def _(side):
    from skopt import BayesSearchCV

    space = {"alpha": (1e-6, 1.0, "log-uniform")}
    BayesSearchCV(side.regressor(), space, n_iter=3, cv=3, random_state=0).fit(X, Y)


@trial("scikit-optimize: the surrogate of an optimiser", "scikit-optimize")
def _(side):
    from skopt import Optimizer

    optimizer = Optimizer(
        [(-2.0, 2.0)],
        base_estimator=side.automatic(),
        n_initial_points=4,
        random_state=0,
        acq_optimizer="sampling",
    )
    for _ in range(8):
        x = optimizer.ask()
        optimizer.tell(x, (x[0] - 1.0) ** 2)
    assert abs(optimizer.get_result().x[0] - 1.0) < 0.5


@trial("bayesian-optimization: its Gaussian process exchanged", "bayesian-optimization")
def _(side):
    from bayes_opt import BayesianOptimization

    optimizer = BayesianOptimization(
        lambda x, y: -(x**2) - (y - 1) ** 2,
        {"x": (-2, 2), "y": (-3, 3)},
        verbose=0,
        random_state=0,
    )
    optimizer._gp = side.automatic()
    optimizer.maximize(init_points=4, n_iter=6)
    return None if optimizer.max["target"] > -0.5 else f"best {optimizer.max['target']:.2f}"


@trial("modAL: active learning and Bayesian optimisation", "modAL-python")
def _(side):
    from modAL.acquisition import max_EI
    from modAL.models import ActiveLearner, BayesianOptimizer

    def least_certain(model, pool):
        return int(np.argmax(model.predict(pool, return_std=True)[1]))

    learner = ActiveLearner(side.regressor(), least_certain, X[:20], Y[:20])
    index = learner.query(X[20:])[0]
    learner.teach(X[20:][index].reshape(1, -1), Y[20:][index].reshape(-1))
    optimizer = BayesianOptimizer(side.regressor(), max_EI, X[:20], Y[:20])
    optimizer.query(X[20:])


@trial("sklearn-genetic-opt: an evolutionary search", "sklearn-genetic-opt")
def _(side):
    from sklearn_genetic import GASearchCV
    from sklearn_genetic.space import Continuous

    GASearchCV(
        estimator=side.regressor(),
        param_grid={"alpha": Continuous(1e-6, 1.0)},
        cv=3,
        population_size=3,
        generations=1,
        verbose=False,
    ).fit(X, Y)


@trial("emcee: samples of hyperparameters", "emcee")
def _(side):
    import emcee

    model = side.automatic().fit(X[:40], Y[:40])
    bounds = model.kernel_.bounds

    def log_density(theta):
        inside = np.all((bounds[:, 0] < theta) & (theta < bounds[:, 1]))
        return model.log_marginal_likelihood(theta) if inside else -np.inf

    start = model.kernel_.theta + 0.01 * np.random.RandomState(0).normal(size=(8, len(bounds)))
    start = np.clip(start, *(bounds + [1e-6, -1e-6]).T)
    sampler = emcee.EnsembleSampler(8, len(bounds), log_density)
    sampler.run_mcmc(start, 10)
    assert np.isfinite(sampler.get_log_prob()).all()


# -- causal effects, fairness, labels ----------------------------------------------------------


@trial("econml: double machine learning", "econml")
def _(side):
    from econml.dml import LinearDML

    treatment = X[:, 0] + 0.3 * np.random.RandomState(0).normal(size=N_FIT)
    model = LinearDML(model_y=side.automatic(), model_t=side.automatic(), cv=3, random_state=0)
    model.fit(Y, treatment, X=X[:, 1:2], W=X[:, 2:]).effect(X[:, 1:2])


@trial("doubleml: a partially linear model", "doubleml")
def _(side):
    from doubleml import DoubleMLData, DoubleMLPLR

    treatment = X[:, 0] + 0.3 * np.random.RandomState(0).normal(size=N_FIT)
    data = DoubleMLData.from_arrays(X[:, 1:], Y, treatment)
    DoubleMLPLR(data, ml_l=side.automatic(), ml_m=side.automatic(), n_folds=3).fit()


@trial("fairlearn: reductions and metrics", "fairlearn")
def _(side):
    from fairlearn.metrics import MetricFrame, selection_rate
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    group = np.where(XC[:, 0] > 0, "a", "b")
    predicted = side.classifier().fit(XC, YC).predict(XC)
    MetricFrame(
        metrics=selection_rate, y_true=YC, y_pred=predicted, sensitive_features=group
    ).difference()
    reduction = ExponentiatedGradient(side.classifier(), DemographicParity(), max_iter=2)
    try:
        reduction.fit(XC, YC, sensitive_features=group)
    except TypeError as error:
        assert "sample_weight" in str(error)
        return "no reductions, because there is no sample_weight"


@trial("cleanlab: wrong labels and wrong targets", "cleanlab")
def _(side):
    from cleanlab.classification import CleanLearning
    from cleanlab.regression.learn import CleanLearning as OfRegression

    CleanLearning(side.classifier(), cv_n_folds=3).find_label_issues(XC, YC)
    OfRegression(side.regressor(), cv_n_folds=3, n_boot=2).find_label_issues(X, Y)


@trial("hiclass: hierarchies of classes", "hiclass")
def _(side):
    from hiclass import LocalClassifierPerParentNode

    labels = np.column_stack([np.where(Y3 == 0, "a", "b"), np.array(["a1", "b1", "b2"])[Y3]])
    LocalClassifierPerParentNode(side.classifier()).fit(X3, labels).predict(X3)


@trial("imbalanced-learn: resampling in pipelines and ensembles", "imbalanced-learn")
def _(side):
    from imblearn.ensemble import BalancedBaggingClassifier
    from imblearn.over_sampling import SMOTE
    from imblearn.pipeline import make_pipeline

    make_pipeline(SMOTE(random_state=0), side.classifier()).fit(XC, YC).predict_proba(XC)
    BalancedBaggingClassifier(side.classifier(), n_estimators=2, random_state=0).fit(XC, YC)


# -- preparation of tables ---------------------------------------------------------------------


@trial("skrub: pipelines of tables", "skrub", "pandas")
def _(side):
    import pandas as pd
    from skrub import tabular_pipeline

    days = pd.to_timedelta(np.arange(N_FIT), unit="D")
    table = pd.DataFrame(
        {"a": X[:, 0], "b": np.where(X[:, 1] > 0.5, "yes", "no"), "t": pd.Timestamp("2020") + days}
    )
    tabular_pipeline(side.automatic()).fit(table, Y).predict(table, return_std=True)


@trial("feature-engine: encoders and selection", "feature-engine", "pandas")
def _(side):
    import pandas as pd
    from feature_engine.discretisation import EqualFrequencyDiscretiser
    from feature_engine.selection import SelectByShuffling

    table = pd.DataFrame(X, columns=COLUMNS)
    SelectByShuffling(side.automatic(), scoring="r2", cv=3, random_state=0).fit(table, pd.Series(Y))
    encoder = EqualFrequencyDiscretiser(variables=["a"])
    make_pipeline(encoder, side.regressor()).fit(table, Y).predict(table)


@trial("category-encoders: target encoding", "category-encoders", "pandas")
def _(side):
    import pandas as pd
    from category_encoders import TargetEncoder

    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0.5, "yes", "no")})
    make_pipeline(TargetEncoder(), side.automatic()).fit(table, Y).predict(table)


@trial("scikit-lego: one model for each group", "scikit-lego", "pandas")
def _(side):
    import pandas as pd
    from sklego.meta import GroupedPredictor

    table = pd.DataFrame(X, columns=COLUMNS).assign(group=np.where(X[:, 0] > 0.5, "x", "y"))
    GroupedPredictor(side.automatic(), groups="group").fit(table, Y).predict(table)


@trial("mlxtend: selection, stacking, bias and variance", "mlxtend")
def _(side):
    from mlxtend.evaluate import bias_variance_decomp
    from mlxtend.feature_selection import SequentialFeatureSelector
    from mlxtend.regressor import StackingCVRegressor

    SequentialFeatureSelector(side.automatic(), k_features=2, cv=3, scoring="r2").fit(X, Y)
    StackingCVRegressor([side.automatic()], side.automatic(), cv=3, random_state=0).fit(X, Y)
    bias_variance_decomp(
        side.regressor(), X, Y, X_TEST, Y_TEST, loss="mse", num_rounds=2, random_seed=0
    )


@trial("river: rows that arrive later", "river")
def _(side):
    from river.compat import convert_sklearn_to_river

    if not hasattr(side.regressor(), "partial_fit"):
        return "there is no partial_fit"
    model = convert_sklearn_to_river(side.regressor(optimizer=None))
    for row, y in zip(X[:20], Y[:20]):
        model.learn_one(dict(zip(COLUMNS, row)), y)
    model.predict_one(dict(zip(COLUMNS, X[0])))


# -- storage and deployment --------------------------------------------------------------------


@trial("skops: a file without code", "skops")
def _(side):
    from skops import io as sio

    for model, rows in ((side.regressor().fit(X, Y), X), (side.classifier().fit(XC, YC), XC)):
        data = sio.dumps(model)
        loaded = sio.loads(data, trusted=sio.get_untrusted_types(data=data))
        same(loaded.predict(rows), model.predict(rows))


@trial("MLflow: log and load", "mlflow", "pandas", "skops")
def _(side):
    import mlflow
    from skops import io as sio

    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(f"sqlite:///{folder}/runs.db")
        mlflow.create_experiment("clients", artifact_location=Path(folder).as_uri())
        mlflow.set_experiment("clients")
        model = side.regressor().fit(X, Y)
        with mlflow.start_run():
            names = {"skops_trusted_types": sio.get_untrusted_types(data=sio.dumps(model))}
            where = mlflow.sklearn.log_model(model, name="model", **names).model_uri
        same(mlflow.sklearn.load_model(where).predict(X), model.predict(X))


@trial("skl2onnx: a regressor with deviations", "skl2onnx", "onnxruntime")
def _(side):
    import onnxruntime
    from skl2onnx import to_onnx

    if side.name == "ours":
        import skgp_sparse.onnx  # noqa: F401
    model = side.automatic().fit(X, Y)
    proto = to_onnx(model, X[:1], options={type(model): {"return_std": True}})
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for one, two in zip(session.run(None, {"X": X_TEST}), model.predict(X_TEST, return_std=True)):
        same(one.ravel(), two, 1e-5)


@trial("skl2onnx: labels of text and probabilities", "skl2onnx", "onnxruntime")
def _(side):
    import onnxruntime
    from skl2onnx import to_onnx

    if side.name == "ours":
        import skgp_sparse.onnx  # noqa: F401
    model = side.classifier().fit(X3, np.array(["a", "b", "c"])[Y3])
    proto = to_onnx(model, X3[:1], options={type(model): {"zipmap": False}})
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    labels, probabilities = session.run(None, {"X": X3})
    assert np.array_equal(labels, model.predict(X3))
    same(probabilities, model.predict_proba(X3), 1e-5)


def run(name, side):
    """What came of a trial: status, words, seconds."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            words = TRIALS[name][1](sides()[side])
        status = "flaw" if words else "works"
    except Exception as error:
        said = str(error).strip()
        cause = said.splitlines()[-1] if "Traceback" in said else f"{type(error).__name__}: {said}"
        status, words = "fails", cause
    return {"status": status, "words": words or "", "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    if len(sys.argv) == 3:
        print("\n" + json.dumps(run(*sys.argv[1:])))
    else:
        for name, (packages, _) in TRIALS.items():
            print(f"{name:60}", *packages)
