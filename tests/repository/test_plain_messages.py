"""Numbers in messages are plain: none of them says ``np.float64(-1.0)``."""

import warnings

import numpy as np
import pytest
from inside import as_text

from skgp_sparse import BayesianGPLVM, SparseGPClassifier, SparseGPRegressor, bounds

pytestmark = [pytest.mark.second, pytest.mark.filterwarnings("ignore")]
X = np.linspace(-1, 1, 12)[:, None]
Y = np.arange(12) % 3
PLAIN = [
    (np.float64(-1.5), "-1.5"),
    (np.int64(-3), "-3"),
    (np.float64(np.nan), "nan"),
    ([np.float64(-1.0), np.int64(2), np.float64(-4.0)], "[-1.0, 2, -4.0]"),
    ((np.float64(3.0), np.bool_(True)), "(3.0, True)"),
    (np.str_("nonsense"), "'nonsense'"),
    (bounds.PEP(alpha=np.float64(0.3)), "PEP(alpha=0.3)"),
    ({"a": [np.float64(1.0)]}, "{'a': [1.0]}"),
    (None, "None"),
]


@pytest.mark.parametrize("value, text", PLAIN, ids=str)
def test_values_as_text_are_those_of_python(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize("kind", [SparseGPRegressor, SparseGPClassifier, BayesianGPLVM])
def test_parameters_are_refused_in_plain_numbers(kind):
    told = []
    for name in kind().get_params(deep=False).keys() - {"verbose", "random_state"}:
        for value in (np.float64(-1.5), [np.int64(2), np.float64(-4.0)]):
            with warnings.catch_warnings(record=True) as caught:
                try:
                    kind(**{"n_inducing": 4, "max_iter": 1, name: value}).fit(X, Y)
                except (ValueError, TypeError) as error:
                    told.append(str(error))
            told += [str(one.message) for one in caught]
    assert len(told) > 12 and not [text for text in told if "np." in text]
