"""What a notebook shows of an estimator: nothing raises or warns, whatever it was fitted to."""

import copy
import pickle
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor

RNG = np.random.RandomState(0)
X = RNG.uniform(-2, 2, (40, 2))
Y = np.sin(2 * X[:, 0]) + 0.1 * RNG.normal(size=40)
LABELS = np.digitize(Y, [-0.5, 0.5])
KERNEL = RBF() + WhiteKernel(0.1)


def regressor(**parameters):
    return SparseGPRegressor(**{"kernel": KERNEL, "optimizer": None, **parameters})


def classifier(**parameters):
    return SparseGPClassifier(RBF(), optimizer=None, **parameters)


def failed():
    """One whose last fit has failed, so that it is as it was."""
    model = regressor().fit(X, Y)
    with pytest.raises(ValueError):
        model.fit(X, np.full(40, np.nan))
    return model


MODELS = {
    "unfitted": regressor,
    "exact": lambda: regressor().fit(X, Y),
    "inducing": lambda: regressor(n_inducing=5).fit(X, Y),
    "neighbors": lambda: regressor(posterior="neighbors").fit(X, Y),
    "fourier": lambda: regressor(posterior="fourier").fit(X, Y),
    "rows": lambda: regressor(posterior="rows").fit(X, Y),
    "several targets": lambda: regressor().fit(X, np.column_stack([Y, Y**2])),
    "counts": lambda: regressor(kernel=RBF(), likelihood="poisson").fit(X, LABELS),
    "partial_fit": lambda: regressor(n_inducing=5).partial_fit(X, Y),
    "failed": failed,
    "copied": lambda: copy.deepcopy(regressor().fit(X, Y)),
    "pickled": lambda: pickle.loads(pickle.dumps(regressor(n_inducing=5).fit(X, Y))),
    "unfitted classifier": classifier,
    "two classes": lambda: classifier().fit(X, Y > 0),
    "three classes": lambda: classifier().fit(X, LABELS),
    "softmax": lambda: classifier(multi_class="softmax").fit(X, LABELS),
    "latent inputs": lambda: BayesianGPLVM(1, n_inducing=5, max_iter=2).fit(X),
}


class Balance(HTMLParser):
    """Counts tags that are open."""

    EMPTY = frozenset({"input", "br", "img", "link", "meta", "hr", "path"})

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", MODELS)
def test_estimators_are_shown(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few iterations
        model = MODELS[name]()
    before = set(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bundle = model._repr_mimebundle_()
    page, text = bundle["text/html"], bundle["text/plain"]
    assert type(model).__name__ in page and type(model).__name__ in text
    assert " object at 0x" not in page
    balance = Balance()
    balance.feed(page)
    assert not balance.open
    assert set(vars(model)) == before  # nothing is stored that was not asked for
