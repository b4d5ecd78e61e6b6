"""docs/messages.md lists every message, and a test provokes each of them.

What tests expect of messages is read from their source: the texts of ``match=``, of comparisons
such as ``"..." in str(error.value)``, and of lists and dicts. A message is provoked if such a text
fits it, better than any other message, with at least twelve characters that are its own. The cases
below provoke messages that no other test does.
"""

import ast
import importlib.util
import pickle
import re
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
from dask import array
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import (
    RBF,
    CompoundKernel,
    ConstantKernel,
    PairwiseKernel,
    WhiteKernel,
)

from skgp_sparse import (
    BayesianGPLVM,
    SparseGPClassifier,
    SparseGPRegressor,
    kernels,
    metrics,
    solvers,
)
from skgp_sparse._engine import sobol
from skgp_sparse._engine.process import without_negative
from skgp_sparse._estimator import fitted_view
from skgp_sparse._ground.linalg import cholesky
from skgp_sparse.dask import (
    DaskSparseGPRegressor,
    _collections,
    _lazy_predictions,
    _partitions,
    _tasks,
)
from skgp_sparse.displays import ConvergenceDisplay, CoverageDisplay
from skgp_sparse.exceptions import TextColumnWarning
from skgp_sparse.families import default_kernels
from skgp_sparse.hyperpriors import LogNormalLengthScales
from skgp_sparse.inference import (
    fixed_point,
    latent_queries,
    methods,
    minibatches,
    optimizers,
    parameters,
    site_objective,
    site_turns,
    stochastic,
)
from skgp_sparse.kernels import Categorical, Columns, LogScale, Missing, Sphere, VaryingNoise
from skgp_sparse.likelihoods import Gamma, Probit
from skgp_sparse.likelihoods._softmax import Softmax
from skgp_sparse.onnx import _response_formulas
from skgp_sparse.posteriors import FourierFeatures, InducingPoints, Neighbors
from skgp_sparse.rows import part
from skgp_sparse.solvers import Minibatches
from skgp_sparse.sources import Arrays

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("make_messages", ROOT / "docs" / "make_messages.py")
make_messages = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(make_messages)

FEWEST = 12  # characters of a message that a test must know
GRAM = 8  # characters that a text and a message share at least in one piece
HOLE = None  # a token of a template that stands for any text
GUARDS = """
There is no posterior: | Sites that overflow end an evaluation, which a search takes back.
The scale v of the residual variance | The same, of the share of the residual variance.
reason: is not available for posterior_= | Only of a strategy of a user.
"""  # how goals begin that no call of a user reaches, and why; a text, which is no expectation


# -- what there is to provoke ----------------------------------------------------------


@cache
def variants():
    """The words of all messages, each part in its place, and the goals that are then reached."""
    found = {}
    for message in make_messages.collect():
        words = message.text.words
        expanded = {words: {words}} if not message.text.parts else {}
        for hole, parts in message.text.parts:
            for one in parts:
                whole = words.replace(f"{{{hole}}}", one.words)
                expanded[whole] = {words, f"{hole}: {one.words}"}
        for whole, goals in expanded.items():
            found.setdefault(re.sub(r"\{[^{}]*\}", "{}", whole), set()).update(goals)
    return found


def goals():
    """All messages, and the parts that some of them may have."""
    return set().union(*variants().values())


def tokens(words):
    """Characters of a template, and its holes: one at the start is for what others say before."""
    pieces = ["{}", *re.split(r"(\{\})", words)]
    return [one for piece in pieces for one in ([HOLE] if piece == "{}" else piece)]


@cache
def index():
    """Which variants have some characters in a row."""
    found = {}
    for words in variants():
        for piece in words.split("{}"):
            for start in range(len(piece) - GRAM + 1):
                found.setdefault(piece[start : start + GRAM], set()).add(words)
    return found


# -- what tests expect -----------------------------------------------------------------


def expected(path):
    """Texts that a file of tests expects, as nodes: constants and formatted strings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    helpers = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and re.search(r"match=|raises\(", ast.unparse(node))
    }
    for node in ast.walk(tree):
        held = []
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in helpers:
            held = node.args
        if isinstance(node, ast.keyword) and node.arg == "match":
            held = list(ast.walk(node.value))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.Eq):
            held = [node.left, *node.comparators]
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            held = node.elts
        elif isinstance(node, ast.Dict):
            held = [*node.keys, *node.values]
        for one in held:
            if isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", None), str):
                yield one


def chunks(node):
    """Pieces that a text has in a row, read as it is and as a pattern."""
    values = node.values if isinstance(node, ast.JoinedStr) else [node]
    plain = [one.value for one in values if isinstance(one, ast.Constant)]
    pattern = [piece for one in plain for piece in pieces_of_pattern(one)]
    return {tuple(filter(None, plain)), tuple(filter(None, pattern))}


def pieces_of_pattern(pattern):
    """Characters in a row of a regular expression, between what stands for others."""
    escaped = re.sub(r"\\([^\w\s])", lambda found: chr(0xE000 + ord(found[1])), pattern)
    for piece in re.split(r"\\[a-zA-Z]|\[.*?\]|[.*+?()|^$]", escaped):
        yield re.sub("[\ue000-\ue0ff]", lambda found: chr(ord(found[0]) - 0xE000), piece)


def known_in(pieces, template):
    """How many characters of a template the pieces of a text know; 0 if they do not fit."""
    reached = {place: 0 for place in range(len(template) + 1)}
    for piece in pieces:
        least, best = {}, -1
        for place in range(len(template) + 1):
            best = max(best, reached.get(place, -1))
            if best >= 0:
                least[place] = best
        reached = least
        for character in piece:
            reached = step(reached, character, template)
    return max(reached.values(), default=0)


def step(reached, character, template):
    """The places of a template after a character, and what is known of it there."""
    found = {}
    for place in sorted(reached):
        known = reached[place]
        while place < len(template) and template[place] is HOLE:
            found[place] = max(found.get(place, 0), known)
            place += 1
        if place < len(template) and template[place] == character:
            found[place + 1] = max(found.get(place + 1, 0), known + 1)
    return found


def reached_by(pieces):
    """The goals that are reached if a message has these pieces."""
    grams = (piece[k : k + GRAM] for piece in pieces for k in range(len(piece) - GRAM + 1))
    candidates = set().union(*(index().get(gram, ()) for gram in grams))
    known = {words: known_in(pieces, tokens(words)) for words in candidates}
    most = max(known.values(), default=0)
    if most < FEWEST:
        return set()
    return set.intersection(*(variants()[words] for words in known if known[words] == most))


@cache
def provoked():
    """The goals that tests reach."""
    texts = {
        pieces
        for path in (ROOT / "tests").glob("test_*.py")
        for node in expected(path)
        for pieces in chunks(node)
        if " " in "".join(pieces) and sum(map(len, pieces)) >= FEWEST
    }
    return set().union(*map(reached_by, texts))


def test_the_page_is_up_to_date():
    make_messages.main(["--check"])


def test_every_message_says_what_to_do():
    for message in make_messages.collect():
        assert make_messages.remedy_of(message), message.text.words


def test_every_message_is_provoked_by_a_test():
    guards = tuple(line.split(" | ")[0] for line in GUARDS.strip().splitlines())
    missing = sorted(goals() - provoked())
    assert not [goal for goal in missing if not goal.startswith(guards)]
    assert all(any(goal.startswith(guard) for goal in missing) for guard in guards)


# -- messages that no other test provokes ----------------------------------------------

X = np.random.RandomState(0).uniform(-2, 2, (30, 2))
Y = np.sin(X[:, 0]) + 0.1 * np.cos(9 * X[:, 1])
LABELS = np.digitize(Y, [-0.5, 0.5])
KERNEL = RBF() + WhiteKernel()
FRAME = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1]})
LEVELS = FRAME.assign(c=pandas.Categorical(["u", "v", "w"] * 10))


COMPLEX = pandas.Series([1j, 2j] * 15, dtype=object)


def fit(X=X, y=Y, rows=None, **parameters):
    """A regressor with fixed hyperparameters."""
    parameters = {"kernel": KERNEL, "optimizer": None, **parameters}
    return SparseGPRegressor(**parameters).fit(X, y, **(rows or {}))


def labelled(X=X, y=LABELS, **parameters):
    """The same of a classifier."""
    parameters = {"kernel": RBF(), "optimizer": None, **parameters}
    return SparseGPClassifier(**parameters).fit(X, y)


def latent(**parameters):
    """The same of a model with latent inputs."""
    return BayesianGPLVM(**{"n_inducing": 5, "max_iter": 2} | parameters).fit(X)


def points(**parameters):
    """The same with inducing points."""
    return fit(n_inducing=5, **parameters)


def learned(X=X, y=Y, **parameters):
    """The same with hyperparameters that are learned in one iteration."""
    return fit(X, y, **{"optimizer": "fmin_l_bfgs_b", "max_iter": 1, **parameters})


def streamed(**parameters):
    """The same, trained by chunks."""
    return SparseGPRegressor(KERNEL, n_inducing=5, optimizer=None, **parameters).partial_fit(X, Y)


def is_there(estimator, name):
    """Ask for an attribute in a way that raises."""
    return getattr(estimator, name)


PARAMETERS = [  # of a regressor
    ({"bound": "elbo"}, "instance of skgp_sparse.bounds.Bound. Got 'elbo' instead"),
    ({"inducing_init": "kmeans"}, "an array of shape (m, n_features) or a callable. Got 'kmeans'"),
    ({"metric": 0}, "The 'metric' parameter of SparseGPRegressor must be an int in the range [1,"),
    ({"n_inducing": 0}, "The 'n_inducing' parameter of SparseGPRegressor must be \"auto\" or an"),
    (
        {"n_targets": 0},
        "The 'n_targets' parameter of SparseGPRegressor must be an int in the range",
    ),
    ({"noise": "white"}, "The 'noise' parameter of SparseGPRegressor must be one of ('auto', "),
    ({"prior": [1]}, "be a list of objects of skgp_sparse.hyperpriors. Got [1] instead"),
    ({"prior": 1}, "None, an object of skgp_sparse.hyperpriors, or a list of these. Got 1"),
    (
        {"prior": LogNormalLengthScales("big")},
        "parameter of SparseGPRegressor must be 'scaled' or a float. Got",
    ),
    (
        {"prior": LogNormalLengthScales(None)},
        "The 'prior__location' parameter of SparseGPRegressor must be a fl",
    ),
    (
        {"prior": LogNormalLengthScales(0.0, -1.0)},
        "The 'prior__variance' parameter of SparseGPRegressor must",
    ),
    ({"tol": "small"}, "The 'tol' parameter of SparseGPRegressor must be \"auto\" or a float. Got"),
    (
        {"tol": -1.0},
        "The 'tol' parameter of SparseGPRegressor must be a float in the range [0, inf",
    ),
    ({"normalize_y": 1}, "The 'normalize_y' parameter of SparseGPRegressor must be True or False"),
    ({"max_iter": 0}, "The 'max_iter' parameter of SparseGPRegressor must be an int in the range"),
    (
        {"alpha": 0.1, "likelihood": "poisson"},
        "SparseGPRegressor: alpha is the variance of known G",
    ),
    ({"alpha": -0.1}, "The 'alpha' parameter of SparseGPRegressor must be a float in the range"),
    (
        {"y": 1e-200 * Y, "alpha": 0.1},
        "parameter of SparseGPRegressor is too large for y: its larg",
    ),
    (
        {"likelihood": "student_t", "bound": "pep"},
        "needs a log-concave likelihood. StudentT is not log-concave",
    ),
    (
        {"noise": "learned", "likelihood": "student_t"},
        "SparseGPRegressor: noise='learned' is that of likelihood='gaussian'. Got likelihood=",
    ),
    ({"likelihood": Gamma(shape_bounds=(2, 1))}, "'fixed', or a lower and a higher number, both a"),
    ({"likelihood": "gamma"}, 'rows have other values. Use likelihood="poisson" if there are'),
    ({"posterior": Neighbors(0)}, "The 'posterior__n_neighbors' parameter of SparseGPRegressor mu"),
    (
        {"posterior": FourierFeatures(0)},
        "parameter of SparseGPRegressor must be an int in the range [2, inf",
    ),
    ({"posterior": InducingPoints(n_mean=9), "bound": "fitc"}, "' or 'dtc' for n_mean. Got bound="),
    (
        {"posterior": InducingPoints(n_mean=9), "likelihood": "student_t"},
        "needs likelihood='gaussian' for n_mean. Got likelihood='student_t'",
    ),
    (
        {"posterior": InducingPoints(tight_variance=True), "likelihood": "student_t"},
        "needs likelihood='gaussian' for tight_variance. Got likelihood='student_t'",
    ),
    (
        {"posterior": InducingPoints(tight_variance=True), "bound": "fitc"},
        "or 'artemev' for tight_variance. Got bound='fitc'",
    ),
]


@pytest.mark.parametrize("parameters, text", PARAMETERS)
def test_parameters_that_are_refused(parameters, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        fit(**parameters)


LATER = [  # parameters with which a regressor has no partial_fit
    ({"posterior": InducingPoints(n_mean=9)}, "n_mean=9 has a second one, which takes all rows at"),
    (
        {"posterior": "neighbors", "likelihood": "student_t"},
        "posterior='neighbors' has Gaussian noise only there",
    ),
]


@pytest.mark.parametrize("parameters, text", LATER)
def test_parameters_that_take_all_rows_at_once(parameters, text):
    with pytest.raises(AttributeError) as caught:
        is_there(SparseGPRegressor(**parameters), "partial_fit")
    assert text in f"{caught.value} {caught.value.__cause__}"


OF_KERNELS = [
    (
        lambda: kernels.diagonal(CompoundKernel([RBF()]), X),
        "CompoundKernel is not a covariance. Add",
    ),
    (
        lambda: Categorical(3)(np.zeros((2, 1)), np.zeros((2, 1)), eval_gradient=True),
        "Gradient can only be evaluated when Y is None",
    ),
    (
        lambda: Categorical(3, rank=1)(np.zeros((2, 2))),
        "takes one column of codes, but the inputs have 2. C",
    ),
    (
        lambda: Categorical(3, correlation=[0.1, 0.2])(np.zeros((2, 1))),
        "has correlations for 2 columns, but the inputs have 1. Choose as many",
    ),
    (
        lambda: LogScale(RBF(), [0], lows=[0.0, 1.0])(X),
        "needs a number in lows and a positive one in units for each of its 1 columns",
    ),
    (
        lambda: Missing(RBF())(np.full((2, 1), np.nan), eval_gradient=True),
        "The gradient of the matrix of Missing needs inputs without missing values. Use",
    ),
    (
        lambda: Missing(RBF(), columns=0).gaps(),
        "columns of Missing must be 'auto' or a list of num",
    ),
    (
        lambda: Missing(RBF(), columns=[3])(np.full((2, 1), np.nan)),
        "columns=[3] of Missing are not among the 1 of its inputs",
    ),
    (
        lambda: Missing(RBF(), columns=[0], correlation=[0.1, 0.2])(np.full((2, 1), np.nan)),
        "correlation of Missing must be a number, or an array of one for each of its columns",
    ),
    (lambda: kernels.register(RBF, 1), "rule must be an instance of a KernelRule. Got 1 instead"),
    (
        lambda: kernels.linearize(PairwiseKernel(metric="chi2"), -np.ones((2, 1)), np.ones((2, 1))),
        "The chi2 kernels need inputs >= 0, but one input is -1.0. Shift the columns",
    ),
    (lambda: Sphere(RBF(), distance="arc")(X), "distance of Sphere must be 'chord'. Got 'arc'"),
    (
        lambda: kernels.diagonal(RBF() + VaryingNoise(len), X)[2](np.ones(30), np.ones(30), True),
        "of VaryingNoise has no gradient with respect to inputs. Give it a method pull",
    ),
]
OF_SCORES = [
    (
        lambda: Softmax(3).tilted(*np.zeros((3, 3, 2))),
        "Softmax has no sites. Use the method probab",
    ),
    (lambda: Softmax(3).response(*np.ones((2, 3, 2))), "Class labels have no mean. Use the method"),
    (
        lambda: Probit().check(np.array([2.0]), "it"),
        "it: Probit takes the labels -1 and 1, but 1 ro",
    ),
    (
        lambda: Probit().check(np.array([2.0]), "it"),
        "Use SparseGPClassifier, which encodes any lab",
    ),
    (
        lambda: Probit().quantile(0.5, 0.0, 1.0),
        "Probit does not define quantiles. Give it a method",
    ),
    (
        lambda: metrics.interval_score([0], [0], [1], coverage=2.0),
        "coverage must be between 0 and 1, both excluded. Got 2.0",
    ),
    (
        lambda: metrics.crps([0.0], [0.0], [0.0]),
        "y_std must be positive. Its smallest value is 0.0",
    ),
    (
        lambda: CoverageDisplay.from_predictions([0.0], [0.0], [0.0]),
        "y_std must be positive. Its smallest value is 0.0",
    ),
    (
        lambda: metrics.mean_standardized_log_loss([0], [0], [1], y_train=[1, 1]),
        "y_train must have different values. All of them are equal",
    ),
    (
        lambda: metrics.crps([0.0, 1.0], [0.0], [1.0]),
        "y_true, y_mean and y_std must have the same shape. Got (2,), (1,) and (1,)",
    ),
    (
        lambda: metrics.interval_coverage([0.0, 1.0], [0.0], [1.0]),
        "y_true, lower and upper must have the same shape. Got (2,), (1,) and (1,)",
    ),
    (
        lambda: ConvergenceDisplay([]).plot(ax=[None, None]),
        "ConvergenceDisplay needs 1 axes. Got 2. Pass as many, or none",
    ),
]
OF_FITS = [
    (
        lambda: labelled(likelihood="probits"),
        "or an instance of skgp_sparse.likelihoods.Binary. Got",
    ),
    (lambda: SparseGPClassifier().partial_fit(X, LABELS, classes=[1]), "class in classes"),
    (
        lambda: labelled(multi_class="softmax", posterior="neighbors"),
        "needs one latent value per row, and a softmax has one per class. Got multi_class='softm",
    ),
    (
        lambda: SparseGPClassifier().fit(X, LABELS, (LABELS > 0) * 1.0),
        "SparseGPClassifier: every row of class 0 has sample_weight 0. Remove these rows",
    ),
    (
        lambda: labelled(csr_matrix(X)),
        "Sparse data was passed for X, but SparseGPClassifier requires",
    ),
    (
        lambda: latent(noise_variance=0.0),
        "The 'noise_variance' parameter of BayesianGPLVM must be a float in the range",
    ),
    (
        lambda: default_kernels.of_numbers(np.array([1e-308])),
        "The standard deviation of a column of X is too small or too large for float64. Rescale",
    ),
    (
        lambda: fit(FRAME.head(0), Y[:0]),
        "Found array with 0 sample(s) (shape=(0, 2)) while a minimu",
    ),
    (
        lambda: fit(LEVELS, kernel=None).predict(LEVELS.assign(a=COMPLEX)),
        "complex numbers are no levels",
    ),
    (
        lambda: fit(LEVELS.assign(a=[(1,), (2,)] * (len(LEVELS) // 2)), kernel=None),
        "lists and tuples are no levels",
    ),
    (
        lambda: fit(FRAME.assign(a=pandas.Timestamp("2020"))[["a"]].to_numpy()),
        "SparseGPRegressor contains times, first '2020-01-01",
    ),
    (lambda: fit(X * [1, np.inf]), "The first is in column 1. Replace it, or remove the row"),
    (
        lambda: fit(rows={"groups": np.full(30, np.nan)}),
        "groups of SparseGPRegressor contain NaN. Give these rows a group of their own",
    ),
    (
        lambda: fit(rows={"groups": [1, 2]}),
        "groups of SparseGPRegressor must be an array with a group for each of the 30 rows. Got sh",
    ),
    (
        lambda: fit(rows={"offset": [1.0, 2.0]}, likelihood="student_t", kernel=RBF()),
        "offset must be a number or an array with one number for each of the 30 rows of X. Got an",
    ),
    (
        lambda: points(inducing_init=np.full((5, 2), np.nan)),
        "missing values, but the kernel takes none. Impute them",
    ),
    (
        lambda: learned(noise="learned", n_inducing=5, rows={"X_std": np.ones_like(X)}),
        "noise='learned' takes inputs as known, but fit was given X_std",
    ),
    (
        lambda: learned(noise="learned", n_inducing=5, posterior=InducingPoints(n_mean=9)),
        "noise='learned' needs one basis. Set n_mean to None and tight_variance to False",
    ),
    (
        lambda: fit(LEVELS, posterior="fourier", kernel=None),
        "The default kernel of a table with categories is",
    ),
    (
        lambda: points(rows={"X_std": np.ones_like(X)}, kernel=Plain(), optimizer="fmin_l_bfgs_b"),
        "X_std needs a kernel with a derivative rule. Got kernel=",
    ),
    (
        lambda: fit(y=np.column_stack([Y, Y]), kernel=RBF(), likelihood="student_t"),
        "likelihood=StudentT() takes one target, but y has 2 columns. Use sklearn.multioutput",
    ),
    (
        lambda: labelled(bound="gfitc-ep", solver=Minibatches(), n_inducing=5),
        "is expectation propagation, which has no minibatches, because the next site of a row dep",
    ),
]
OF_PREDICTIONS = [
    (
        lambda: fit().sample_functions(0),
        "The 'n_functions' parameter of SparseGPRegressor.sample_fu",
    ),
    (
        lambda: fit().sample_functions(n_frequencies=0),
        "The 'n_frequencies' parameter of SparseGPReg",
    ),
    (
        lambda: len(fit().sample_functions(2)[0]),
        "one sampled function, which has no length. Draw se",
    ),
    (lambda: fit().sample_functions(2)[0][0], "This is one sampled function. Call it with inputs"),
    (
        lambda: fit().predict_interval(X, side="up"),
        "The 'side' parameter of SparseGPRegressor.predict_interval must be one of ('both'",
    ),
    (
        lambda: fit().predict_quantiles(X, [0.0, 2.0]),
        "list of numbers between 0 and 1, both excluded",
    ),
    (
        lambda: fit(kernel=RBF(), likelihood="poisson", y=Y > 0).predict(X, return_cov=True),
        "return_cov=True is available for likelihood='poisson' only with latent=True. Set it, or",
    ),
    (
        lambda: fit(kernel=RBF(), likelihood="student_t").components(X),
        "SparseGPRegressor.components is that of likelihood='gaussian'. Got likelihood=",
    ),
    (
        lambda: fit(kernel=RBF(), likelihood="student_t").evidence_bounds(),
        "SparseGPRegressor.evidence_bounds needs likelihood='gaussian'. Got 'student_t'. Judge",
    ),
    (
        lambda: uncertain().evidence_bounds(),
        "evidence_bounds takes inputs as known, but fit was given X_std. Judge the fit by",
    ),
    (
        lambda: uncertain().partial_fit(X, Y),
        "partial_fit takes inputs as known, but fit was given X_std. Call fit with all rows",
    ),
    (
        lambda: uncertain().loo_predict(),
        "loo_predict takes inputs as known, but fit was given X_std. Call fit without it",
    ),
    (
        lambda: uncertain().loo_predict(),
        "takes inputs as known, but fit was given X_std. Call fit without it",
    ),
    (
        lambda: points(posterior=InducingPoints(n_mean=9)).loo_predict(),
        "one by one. Set n_mean to None and tight_variance to False, and call fit",
    ),
    (
        lambda: pickle.loads(pickle.dumps(points())).loo_predict(),
        "needs the training rows, which this estimator does not contain, because it was fitted on",
    ),
    (
        lambda: fit(rows={"sample_weight": np.arange(30)}).loo_predict(),
        "cannot leave out rows of weight zero, which were not in the fit. Fit without them",
    ),
    (
        lambda: labelled(multi_class="one_vs_one").loo_predict_proba(),
        "needs problems that have all rows. Got multi_class='one_vs_one'. Set it to 'one_vs_rest'",
    ),
    (
        lambda: fit(kernel=ConstantKernel(0.0), alpha=0.1).log_predictive_density(X, Y),
        "so that there is no log density. Add a WhiteKernel to the kernel, because predictions do",
    ),
    (
        lambda: with_one_gap().evidence_bounds(FRAME.assign(b=np.nan), Y),
        "there were none in the column in fit. Impute them, or fit with such rows",
    ),
    (
        lambda: with_one_gap().predict(FRAME.assign(b=np.nan), return_gradient=True),
        "SparseGPRegressor.predict: gradients are not known where a value of X is missing in a "
        "column in which none was missing in fit. Impute it, or leave out return_gradient",
    ),
    (
        lambda: with_one_gap().predict(FRAME.assign(b=np.nan), X_std=np.zeros(X.shape)),
        "SparseGPRegressor.predict: X_std cannot be combined with missing values of X. Impute",
    ),
    (
        lambda: with_one_gap().predict(FRAME.iloc[0]),
        "Expected 2D array, got 1D array instead: X of SparseGPRegressor is a Series of",
    ),
    (
        lambda: fit(kernel=None).predict(X * np.nan),
        "missing values. There were none in fit. Impute them, or fit with such rows",
    ),
    (
        lambda: fit().predict(Arrays(X, Y)),
        "but a prediction or score of SparseGPRegressor takes an array of rows. Pass the inputs of",
    ),
    (
        lambda: fit().predict(Arrays(X, Y)),
        "Pass the inputs of its chunks one by one, such as source.chunk(k)[0]",
    ),
    (
        lambda: points().partial_fit(Arrays(X, Y), Y),
        "but SparseGPRegressor.partial_fit takes an array of rows. Pass its chunks one by one",
    ),
    (lambda: from_a_stream().feature_importances_, "_ needs training rows in memory. Fit arrays"),
    (
        lambda: points().partial_fit(Arrays(X, Y), Y),
        "but SparseGPRegressor.partial_fit takes an arr",
    ),
    (
        lambda: fitted_view(fit(LEVELS, kernel=None)),
        "was fitted to a table with categories or times, which a graph does not encode. Fit it",
    ),
    (
        lambda: with_levels().predict(LEVELS.assign(c="z")),
        "has a level that was not in fit, first in row 0, and",
    ),
]


class Plain(RBF):
    """A kernel without a rule of derivatives."""


def from_a_stream():
    """A regressor whose rows are gone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part, "_SMALL_TABLE", 0)
        return fit(Arrays(X, Y), None, n_inducing=5)


def with_one_gap():
    """A regressor of a data frame, in which a value may be missing later."""
    return fit(FRAME, kernel=None)


def with_levels():
    """A regressor whose kernel refuses levels that are new."""
    levels = Columns(Categorical(handle_unknown="error"), ["c"])
    return fit(LEVELS, kernel=Columns(RBF(), ["a", "b"]) * levels + WhiteKernel())


def uncertain():
    """A regressor of uncertain inputs."""
    return learned(rows={"X_std": np.full(X.shape, 0.1)}, n_inducing=5)


@pytest.mark.parametrize("call, text", OF_KERNELS + OF_SCORES + OF_FITS + OF_PREDICTIONS)
def test_calls_that_are_refused(call, text):
    errors = ValueError, TypeError, AttributeError, NotImplementedError
    with pytest.raises(errors, match=re.escape(text)):
        call()


def test_names_of_bounds_of_likelihoods():
    with pytest.raises(ValueError) as caught:
        fit(bound="elbo", likelihood="poisson")
    assert str(caught.value) == (
        "The 'bound' parameter of SparseGPRegressor must be one of ['artemev', 'auto', 'fitc', "
        "'gfitc-ep', 'pep', 'titsias', 'titsias_new', 'vfe']. Got 'elbo' instead."
    )


# -- sources and clusters --------------------------------------------------------------


class Listed:
    """A source of chunks in a list."""

    feature_names = None

    def __init__(self, *chunks):
        self.chunks, self.chunk_sizes = chunks, None

    def chunk(self, k):
        return self.chunks[k] if k < len(self.chunks) else None


class LazyFrame:
    """What polars has not computed."""


def collection(values=X):
    """A dask array of two blocks."""
    return array.from_array(values, chunks=(15, *values.shape[1:]))


WEIGHT = np.ones(30)
OF_ROWS_ELSEWHERE = [
    (lambda: fit(Listed(), None), "has no rows, but at least one is required. Give a chunk"),
    (
        lambda: fit(Listed((X,)), None),
        "A chunk must be a tuple (X, y), (X, y, sample_weight) or (X",
    ),
    (
        lambda: fit(Listed((X, Y), (X, Y, WEIGHT)), None),
        "same form, but some chunks have a sample_weight, others have none",
    ),
    (
        lambda: fit(Listed((X, Y > 0), (X, Y > 0, None, WEIGHT)), None, likelihood="poisson"),
        "same form, but some chunks have an offset, others have none",
    ),
    (
        lambda: labelled(Listed((X, LABELS), (X, LABELS.astype(str))), None),
        "same form, but some labels are text, others are numbers",
    ),
    (lambda: fit(LazyFrame()), "X of SparseGPRegressor is a LazyFrame of polars. Pass X.collect()"),
    (
        lambda: fit(collection(), Y),
        "which SparseGPRegressor would have to load as a whole. Use DaskSparseGPRegressor or Dask",
    ),
    (
        lambda: DaskSparseGPRegressor().predict(collection(), return_cov=True),
        "A covariance is that of all pairs of rows. Pass some, such as X[:100].compute()",
    ),
    (
        lambda: _collections.aligned(np.zeros(3), "y", None, [], (2, 2)),
        "y has 3 rows and X has 4. Pass one for each row of X",
    ),
    (
        lambda: _lazy_predictions._check_columns(fit(), collection(X[:, :1])),
        "X must have 2 columns, as in fit. Got a collection of shape (30, 1)",
    ),
    (
        lambda: _tasks.load(0, None, X, y=Y[:3]),
        "y has 3 rows and X has 30. Partitions of X and of what belongs to its rows must hold",
    ),
    (
        lambda: DaskSparseGPRegressor()._read(
            SimpleNamespace(name="it"), collection(), None, None, None, X_std=1.0
        ),
        "it: X_std is available for rows in memory. Pass arrays, such as X.compute()",
    ),
]


@pytest.mark.parametrize("call, text", OF_ROWS_ELSEWHERE)
def test_rows_elsewhere_that_are_refused(call, text):
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        call()


def test_a_cluster_that_lost_rows_says_so():
    with pytest.raises(RuntimeError, match="The cluster lost rows of the table and cannot compute"):
        with _partitions.in_words(SimpleNamespace(status="running")):
            raise _partitions._LOST[0]("rows")


MISSING_PACKAGES = [
    ("dask", "distributed", "skgp_sparse.dask needs dask and distributed, which are not installed"),
    ("onnx", "skl2onnx", "skgp_sparse.onnx needs onnx and skl2onnx, which are not installed"),
]


@pytest.mark.parametrize("room, package, text", MISSING_PACKAGES)
def test_packages_that_are_missing(room, package, text, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"skgp_sparse.{room}")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=text):
        importlib.import_module(f"skgp_sparse.{room}")


# -- numbers that cannot be computed with, and warnings --------------------------------


def failing_arithmetic():
    """What Python says of numbers that are too large, inside an evaluation."""
    with parameters.arithmetic():
        return 10.0**400


OF_NUMBERS = [
    (
        lambda: solvers._fit_of(RBF(), SimpleNamespace(value=np.nan), 1),
        "The objective is not finite (got nan) with the kernel RBF",
    ),
    (
        lambda: fixed_point.solve_fixed_point(
            lambda state: SimpleNamespace(gap=np.nan), None, None, tol=1.0, max_iter=1
        ),
        "The sites overflow: the latent variance is too large for the likelihood. Lower",
    ),
    (
        failing_arithmetic,
        "A hyperparameter of the kernel is too large or too small to compute with",
    ),
    (
        lambda: site_turns.check_moments(*-np.ones((3, 2))),
        "A posterior variance is negative or no number: the kernel is not positive definite at",
    ),
    (lambda: maximise_from(np.nan, np.zeros(1)), "The objective is not finite at the start. Check"),
    (
        lambda: maximise_from(0.0, np.full(1, np.nan)),
        "The gradient of the objective is not finite at the start. Check",
    ),
    (
        lambda: cholesky(np.full((2, 2), np.nan)),
        "The Nyström matrix is not finite. Raise the lower",
    ),
]


def maximise_from(value, gradient):
    """A search whose first evaluation has these answers."""
    limits = np.array([[-1.0, 1.0]])
    return optimizers._Minimand(lambda x: (value, gradient), limits, 1.0).start(np.zeros(1))


@pytest.mark.parametrize("call, text", OF_NUMBERS)
def test_numbers_that_cannot_be(call, text):
    with pytest.raises(np.linalg.LinAlgError, match=re.escape(text)):
        call()


def test_sobol_indices_of_numbers_that_are_too_large():
    with pytest.raises(ValueError, match="The variance of the mean over the rows is not finite"):
        sobol._indices(*np.full((3, 1, 1), np.inf))


def test_kernels_without_rules_have_no_gradients_of_inputs():
    with pytest.raises(TypeError, match="has no derivative rule. Use optimize_inducing=False, or"):
        kernels.linearize(Plain(), X, X)[1](np.ones((30, 30)), True)


def test_likelihoods_without_a_graph():
    with pytest.raises(NotImplementedError, match="ONNX, which has formulas for .*Use one of them"):
        _response_formulas.response(None, Probit(), None, None, "SparseGPRegressor")


TEXT = {
    "Column 'a' spells numbers in 100% of its values, first '0': convert it by": map(
        str, range(60)
    ),
    "Column 'a' has 60 levels in 60 rows, and says nothing of new rows: drop it, or put a": (
        f"row {k}" for k in range(60)
    ),
}


@pytest.mark.parametrize("text", TEXT)
def test_text_that_is_hardly_a_category(text):
    frame = pandas.DataFrame({"a": [*TEXT[text]]})
    with pytest.warns(TextColumnWarning, match=re.escape(text)) as caught:
        fit(frame, np.arange(60.0), kernel=None)
    told = str(caught[0].message)
    assert "SparseGPRegressor: text in X is a category, whose levels have no order. " in told
    assert "Name columns that should stay categories in categorical_features, or filter" in told


WARNED = [
    (lambda: without_negative(-np.ones(1), 1.0), "Predicted variances smaller than 0. Setting tho"),
    (
        lambda: points().set_params(max_iter=1).evidence_bounds(),
        "The solve for the bounds ended with a residual of",
    ),
    (
        lambda: learned(noise="learned", time_limit=0),
        "SparseGPRegressor: noise='learned' had no time left, and the noise is constant. Raise",
    ),
    (
        lambda: learned(kernel=Plain() + WhiteKernel(), n_inducing=5),
        "The inducing points are not optimised, because a part of",
    ),
    (
        lambda: fit(kernel=RBF(0.1), alpha=1e-10, n_inducing=3, optimizer="fmin_l_bfgs_b"),
        "The inducing points leave a variance of",
    ),
]


@pytest.mark.parametrize("call, text", WARNED)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_warnings(call, text):
    with pytest.warns(UserWarning, match=re.escape(text)):
        call()


def test_positions_that_have_not_converged(monkeypatch):
    fitted, never = latent(), np.zeros(len(X), dtype=bool)
    monkeypatch.setattr(latent_queries.Places, "converged", never)
    with pytest.warns(ConvergenceWarning, match="positions of 30 rows have not converged. Their"):
        fitted.transform(X)


def by_minibatches(**parameters):
    """A fit of few rows at a time."""
    parameters = {"n_inducing": 5, "max_iter": 2, "random_state": 0, **parameters}
    X = np.random.RandomState(0).uniform(-2, 2, (400, 2))
    return SparseGPRegressor(solver=Minibatches(20), **parameters).fit(X, np.sin(3 * X[:, 0]))


def breaks(*args):
    """What cannot be computed."""
    raise np.linalg.LinAlgError("It is not positive definite.")


def test_minibatches_that_fail(monkeypatch):
    monkeypatch.setattr(stochastic.Adam, "direction", lambda self, gradient: gradient * np.nan)
    with pytest.warns(ConvergenceWarning) as caught:
        by_minibatches()
    text = " ".join(str(one.message) for one in caught)
    assert " minibatches failed, so that the fit goes on from what it had before" in text
    assert "The gradient of a minibatch is not finite. Check the scale" in text


def test_samples_that_fail(monkeypatch):
    monkeypatch.setattr(stochastic.Search, "_climb", breaks)
    with pytest.warns(ConvergenceWarning, match="rows could not be fitted, so that the fit goes"):
        by_minibatches()


def test_sites_of_minibatches_that_do_not_converge(monkeypatch):
    monkeypatch.setattr(minibatches, "_PASSES", 1)
    with pytest.warns(ConvergenceWarning, match="sites of all rows did not converge in 1 passes"):
        by_minibatches(likelihood="student_t")


def test_a_bound_of_minibatches_that_is_not_finite(monkeypatch):
    conclude = minibatches.SiteMinibatchView.conclude

    def without_total(*args):
        monkeypatch.setattr(methods.Variational, "total", lambda *args: np.nan)
        return conclude(*args)

    monkeypatch.setattr(minibatches.SiteMinibatchView, "conclude", without_total)
    with pytest.raises(np.linalg.LinAlgError, match="The bound of all rows is not finite. Check"):
        by_minibatches(likelihood="student_t")


SITES = [
    ("max_iter_predict", "the best state is used. Raise max_iter_predict (now 3), or lower the up"),
    ("", "the best state is used. Lower the upper bound of the kernel's variance"),
]


@pytest.mark.parametrize("parameter, text", SITES)
def test_sites_that_do_not_converge(parameter, text):
    inner = SimpleNamespace(parameter=parameter, max_iter=3)
    solution = SimpleNamespace(n_iter=3, step=SimpleNamespace(gap=1.0))
    with pytest.warns(ConvergenceWarning, match=re.escape(text)):
        site_objective.SiteObjective._warn_of(SimpleNamespace(inner=inner), solution)
