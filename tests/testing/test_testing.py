"""The public checkers pass what the package ships, and find what is wrong in everything else."""

import re

import numpy as np
import pytest
from chunked_arrays import Arrays
from conftest import BOUNDS, ROOT
from gaussian import Gaussian
from inside import RationalQuadraticRule, Surrogate
from kernel_cases import ALL, Rippled
from scipy.special import ndtr
from sklearn.gaussian_process import kernels as sk

from skgp_sparse import kernels
from skgp_sparse.bounds import DTC, FITC, PEP, Bound, Titsias
from skgp_sparse.likelihoods import Logit, Probit
from skgp_sparse.testing import check_bound, check_kernel_rule, check_likelihood, check_source

GUIDE = (ROOT / "docs" / "guide" / "extending.md").read_text("utf-8")


def finds(sentence):
    return pytest.raises(AssertionError, match=sentence)


# what is shipped

SHIPPED = [*BOUNDS.values(), PEP(0.0), PEP(1.0)]
SHIPPED_LIKELIHOODS = [
    Probit(),
    Logit(),
    *map(Gaussian, (1e-4, 0.4, 1e4)),
    Gaussian(0.2, (1e-3, 9.0)),
]


@pytest.mark.parametrize("bound", SHIPPED, ids=repr)
def test_shipped_bounds_pass(bound):
    assert check_bound(bound) is None


@pytest.mark.second
@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(k, marks=() if i % 5 == 0 else pytest.mark.full(share=0.02))
        for i, k in enumerate(ALL)
    ],
    ids=str,
)
def test_shipped_rules_pass(kernel):
    assert check_kernel_rule(kernel) is None


@pytest.mark.second(share=0.36)
@pytest.mark.parametrize("likelihood", SHIPPED_LIKELIHOODS)
def test_shipped_likelihoods_pass(likelihood):
    y = [-7.0, -0.2, 0.5, 30.0] if isinstance(likelihood, Gaussian) else None
    assert check_likelihood(likelihood, y) is None


@pytest.mark.second(share=0.39)
@pytest.mark.parametrize("seed", [1, np.random.RandomState(2), None])
def test_other_seeds_and_inputs_pass(seed):
    X = 1e4 * np.random.default_rng(0).normal(size=(50, 2)) * [1.0, 1e-8]
    check_kernel_rule(sk.ConstantKernel(1e-6) * sk.RBF([9e3, 2e-4]) + sk.WhiteKernel(1e-9), X, seed)
    check_likelihood(Probit(), random_state=seed)


def test_few_rows_are_enough():
    check_kernel_rule(sk.RBF(0.5) + sk.DotProduct(0.3), [[0.0], [1.0]])
    check_likelihood(Gaussian(0.3), [0.7])
    check_likelihood(Gaussian(1e-8), [1e3])
    check_likelihood(Logit(), [-1])


@pytest.mark.second
@pytest.mark.parametrize("title", re.findall("## (A .* of your own)", GUIDE))
def test_examples_of_the_guide_end_with_their_check(title):  # test_guide runs them
    section = GUIDE.split(f"## {title}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)
    assert blocks and all(block.splitlines()[-1].startswith("check_") for block in blocks)


# kernels that are no covariances


class Distances(sk.StationaryKernelMixin, kernels.DifferentiableKernel):
    """The right rule of a function of ``|x - z|²``, and of its slope."""

    footprint = 1

    def __init__(self, value=None, slope=None):
        self.value, self.slope = value, slope

    def linearize(self, X, Z):
        apart = X[:, None] - Z
        squares = (apart**2).sum(axis=2)
        pull = lambda G: -2.0 * np.einsum("nm,nmd->md", G * self.slope(squares), apart)
        return self.value(squares), lambda G, inputs: ({}, pull(G) if inputs else 0.0)

    def linearize_diag(self, X):
        return self.value(0.0), lambda g, inputs: ({}, 0.0)


def power(p):
    """``exp(-|x - z|^p)``, a covariance where p is at most 2."""
    value = lambda squares: np.exp(-(squares ** (p / 2)))
    slope = lambda squares: -0.5 * p * np.maximum(squares, 1e-300) ** (p / 2 - 1) * value(squares)
    return Distances(value, slope)


COVARIANCES = {
    "power 1.5": power(1.5),
    "power 2": power(2.0),
    "power 2.1": power(2.1),
    "power 3": power(3.0),
    "a parabola": Distances(lambda s: 1.0 - s, lambda s: -np.ones_like(s)),
    "under noise": sk.ConstantKernel(2.0) * power(3.0) + sk.WhiteKernel(10.0),
}


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("name", COVARIANCES)
def test_kernels_without_a_positive_matrix_are_found(name, columns):
    X = np.random.default_rng(0).normal(size=(30, columns))
    if name in ("power 1.5", "power 2"):
        check_kernel_rule(COVARIANCES[name], X)
        return
    with finds(r"Distances.*: k\(X, X\) has the eigenvalue -.* no covariance"):
        check_kernel_rule(COVARIANCES[name], X)


class Bilinear(kernels.DifferentiableKernel):
    """``xᵀ M z`` with its right rule."""

    footprint = 1

    def __init__(self, skew=0.0):
        self.skew = skew

    def linearize(self, X, Z):
        A = X @ (np.eye(3) + self.skew * np.eye(3, k=1))
        return A @ Z.T, lambda G, inputs: ({}, G.T @ A if inputs else 0.0)

    def linearize_diag(self, X):
        M = np.eye(3) + self.skew * np.eye(3, k=1)
        pull = lambda g, inputs: ({}, g[:, None] * (X @ (M + M.T)) if inputs else 0.0)
        return np.einsum("ni,ij,nj->n", X, M, X), pull

    def is_stationary(self):
        return False


def test_kernels_that_are_not_symmetric_are_found():
    check_kernel_rule(Bilinear())
    for kernel in (Bilinear(0.5), Bilinear(0.5) + sk.RBF(), Bilinear(1e-5) * sk.RBF()):
        with finds(r"Bilinear.*: k\(X, Z\), which must be k\(Z, X\).T, is .*expected"):
            check_kernel_rule(kernel)


# bounds


class Claimed(Bound):
    """Titsias' bound with a scaled residual variance, which is a bound for v = 1 only."""

    def __init__(self, v=1.0):
        self.v = v

    def penalty(self, x):
        return Surrogate(self.v).penalty(x)


@pytest.mark.parametrize("v", [1e-3, 0.5, 0.99])
def test_a_scaled_penalty_is_no_bound(v):
    with finds("Claimed.* has is_lower_bound = True, but its objective is .*expected at most"):
        check_bound(Claimed(v))
    check_bound(Claimed(1.0))


@pytest.mark.parametrize("bound", [DTC, FITC, PEP])
def test_false_claims_are_found(bound):
    class Claimed(bound):
        is_lower_bound = True

    with finds("Claimed.* has is_lower_bound = True, .*Set is_lower_bound = False"):
        check_bound(Claimed())


def bound_with(**members):
    """Half of x, unless told otherwise."""
    return type("Own", (Bound,), {"penalty": Titsias.penalty, **members})()


@pytest.mark.parametrize(
    "penalty, sentence",
    [
        (lambda self, x: (0.5 * x, 1.0), "slope, .*differences, is 1 at x = 0, expected 0.5"),
        (lambda self, x: (0.5 * np.log1p(x), 0.5 / (2.0 + x)), "slope, .* is 0.25 at x = 0"),
        (lambda self, x: (0.5 * x[:, None], 0.5), r"phi of 49 rows has shape \(49, 1\)"),
        (lambda self, x: (0.5 * x, np.full(3, 0.5)), r"slope of 49 rows has shape \(3,\)"),
        (lambda self, x: (0.5 * np.log(2.0 + x), 0.5 / (2.0 + x)), "at x = 0, expected 0, as noth"),
        (lambda self, x: (-0.5 * x, -0.5), "no negative number, as is_lower_bound is True"),
        (lambda self, x: (0.5 * len(x) * x, 0.5 * len(x)), "phi of a row alone"),
        (lambda self, x: (np.where(x > 1e9, np.inf, x), 1.0), "49 rows is inf at .*finite n"),
        (lambda self, x: (0.5 * x * (x <= x.max()), 0.5), "of 0 rows raised ValueError"),
        (lambda self, x: (np.multiply(x, 0.5, out=x), 0.5), "of 49 rows raised Val.*read-only"),
    ],
)
def test_wrong_penalties_are_found(penalty, sentence):
    with finds(rf"Own\(\)\.penalty.*{sentence}"):
        check_bound(bound_with(penalty=penalty))


@pytest.mark.parametrize(
    "reduce, sentence",
    [
        (lambda self, total, n: (total, 2.0), "slope, .* is 2 at total/n = 0, expected 1"),
        (lambda self, total, n: (total + 1.0, 1.0), "is 1 at total/n = 0, expected 0"),
        (lambda self, total, n: (-total, -1.0), "expected no negative number"),
        (lambda self, total, n: (total, np.nan), "slope of 49 rows is nan"),
        (lambda self, total, n: total, "raised TypeError"),
    ],
)
def test_wrong_reductions_are_found(reduce, sentence):
    with finds(rf"Own\(\)\.reduce with n = 1.*{sentence}"):
        check_bound(bound_with(reduce=reduce))


@pytest.mark.parametrize("share", [1.5, -0.1, None, np.nan])
def test_wrong_noise_shares_are_found(share):
    with finds(rf"noise_share is {share}, expected a number in \[0, 1\]"):
        check_bound(bound_with(noise_share=share))


def test_bounds_that_do_not_clone_are_found():
    def init(self, scale=2.0):
        self.scale = [scale]

    with finds("clone.* raised RuntimeError"):
        check_bound(bound_with(__init__=init))
    with finds("must be an instance of skgp_sparse.bounds.Bound"):
        check_bound("titsias")


# rules of kernels


class Plain(sk.DotProduct):
    """A kernel of one's own, to the registry."""


class PlainRule(kernels.KernelRule):
    """The right rule, whose parts can be replaced one by one."""

    def __init__(self, **flaws):
        self.__dict__.update(flaws)

    def value(self, kernel, X, Z):
        return X @ Z.T + kernel.sigma_0**2

    def theta(self, kernel, G):
        return {"sigma_0": 2.0 * kernel.sigma_0**2 * np.sum(G)}

    def by_Z(self, K, X, Z, G):
        return G.T @ X

    def on_diag(self, kernel, X):
        return np.sum(X**2, axis=1) + kernel.sigma_0**2

    def by_X(self, X, g):
        return 2.0 * g[:, None] * X

    def linearize(self, kernel, X, Z):
        K = self.value(kernel, X, Z)
        return K, lambda G, inputs: (self.theta(kernel, G), self.by_Z(K, X, Z, G))

    def linearize_diag(self, kernel, X):
        pull = lambda g, inputs: (self.theta(kernel, g), self.by_X(X, g))
        return self.on_diag(kernel, X), pull


def overwrite_value(K, X, Z, G):
    K[:] = 0.0
    return G.T @ X


def overwrite_inputs(kernel, X, Z):
    Z += 0.0
    return X @ Z.T + kernel.sigma_0**2


def forget_theta(kernel, G):
    gradient = 2.0 * kernel.sigma_0**2 * np.sum(G)
    kernel.sigma_0 = 1.0
    return {"sigma_0": gradient}


def refuse_coincidence(K, X, Z, G):
    met = np.isin(Z[:, :1], X[:, :1])
    return np.where(met, np.nan, G.T @ X)


def keep_the_last_rows(kernel, X, Z, last=[]):  # noqa: B006  # which is the flaw
    last[:] = [X]
    K, pull = PlainRule().linearize(kernel, X, Z)
    return K, lambda G, inputs: (pull(G, inputs)[0], G.T @ last[0])


def need_inputs(kernel, X, Z):
    K, pull = PlainRule().linearize(kernel, X, Z)
    return K, lambda G, inputs: pull(G, inputs) if inputs else ({"sigma_0": 0.0}, 0.0)


def test_the_right_rule_passes():
    kernels.register(Plain, PlainRule())
    check_kernel_rule(Plain(0.7))
    check_kernel_rule(sk.ConstantKernel(2.0) * Plain(0.7) + sk.WhiteKernel(0.1))


@pytest.mark.parametrize(
    "flaw, sentence",
    [
        ({"value": lambda k, X, Z: X @ Z.T + 0.5}, r"k\(X, Z\) is"),
        ({"value": lambda k, X, Z: Z @ X.T}, r"k\(X, Z\) has shape \(7, 16\), expected \(16, 7\)"),
        ({"value": overwrite_inputs}, "linearize raised ValueError.*read-only"),
        ({"theta": lambda k, G: {"sigma_0": np.sum(G)}}, "linearize with respect to theta"),
        ({"theta": lambda k, G: {"sigma": 0.0}}, "raised ValueError.*returned gradients named"),
        ({"theta": forget_theta}, "changes theta to"),
        ({"by_Z": lambda K, X, Z, G: 2.0 * G.T @ X}, "linearize with respect to the inputs"),
        ({"by_Z": lambda K, X, Z, G: G.T @ X[:, :2]}, r"to the inputs, .* has shape \(7, 2\)"),
        ({"by_Z": overwrite_value}, r"\* Plain.*RBF.*gradient of linearize"),
        ({"by_Z": refuse_coincidence}, "linearize where rows coincide .* the inputs, .* is nan"),
        ({"linearize": keep_the_last_rows}, "after another call .* the inputs, beside differences"),
        ({"linearize": need_inputs}, "gradient of theta with inputs=False is 0 at"),
        ({"on_diag": lambda k, X: np.sum(X**2, axis=1)}, r"k\(x, x\) is"),
        ({"by_X": lambda X, g: g[:, None] * X}, "linearize_diag with respect to the inputs"),
        ({"by_X": lambda X, g: np.multiply(g, 2, out=g)[:, None] * X}, "raised .*read-only"),
    ],
)
def test_wrong_rules_are_found(flaw, sentence):
    kernels.register(Plain, PlainRule(**flaw))
    with finds(rf"Plain.*{sentence}"):
        check_kernel_rule(Plain(0.7))


def test_constants_that_overwrite_the_cotangent_are_found():
    class Level(sk.ConstantKernel):
        pass

    class LevelRule(kernels.KernelRule):
        def linearize(self, kernel, X, Z):
            return self.linearize_diag(kernel, X)[0], lambda G, inputs: (
                {"constant_value": np.sum(np.multiply(G, kernel.constant_value, out=G))},
                0.0,
            )

        def linearize_diag(self, kernel, X):
            value = float(kernel.constant_value)
            return value, lambda g, inputs: ({"constant_value": value * np.sum(g)}, 0.0)

    kernels.register(Level, LevelRule())
    with finds("RBF.*gradient of linearize with respect to theta"):
        check_kernel_rule(Level(2.0))


def test_fixed_hyperparameters_must_not_change_the_others():
    class Two(sk.RationalQuadratic):
        pass

    class Careless(RationalQuadraticRule):
        def linearize(self, kernel, X, Z):
            K, pull = super().linearize(kernel, X, Z)
            fixed = kernel.hyperparameter_alpha.fixed
            return K, lambda G, inputs: ({}, 0.0) if fixed else pull(G, inputs)

    kernels.register(Two, Careless())
    with finds("with alpha_bounds='fixed' with respect to theta, beside differences, is 0 "):
        check_kernel_rule(Two(0.8, 1.3))


@pytest.mark.parametrize(
    "kernel", [Rippled(), sk.RBF() + sk.PairwiseKernel(metric=lambda x, z, **_: 1)]
)
def test_kernels_without_a_rule_are_told_to_register_one(kernel):
    with finds(r"has no derivative rule\. Make .*skgp_sparse.kernels.register"):
        check_kernel_rule(kernel)


# likelihoods


def changed(base, kind, change, *args):
    """A likelihood whose answers to `kind` are changed."""

    def answer(self, y, mean, variance, *power, **powers):
        return change(mean, *getattr(base, kind)(self, y, mean, variance, *power, **powers))

    return type("Own", (base,), {kind: answer})(*args)


@pytest.mark.parametrize("kind", ["expected", "tilted"])
@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda mean, v, s, c: (v, 1.001 * s, c), "slope, beside central differences, is"),
        (lambda mean, v, s, c: (v, s, 1.001 * c), "curvature, beside central differences, is"),
        (lambda mean, v, s, c: (v, s), "returns 2 arrays, expected 3"),
        (lambda mean, v, s, c: (v[:, None], s, c), r"value of 216 rows has shape \(216, 1\)"),
        (lambda mean, v, s, c: (v, s, np.where(mean > 900, np.nan, c)), "mean = 1000.*finite"),
        (lambda mean, v, s, c: (v + mean.max(), s, c), "a row alone"),
        (lambda mean, v, s, c: (v + mean**2, s + 2 * mean, c - 2), "must be log-concave"),
        (lambda mean, v, s, c: (v + np.add(mean, 1, out=mean), s, c), "read-only"),
    ],
)
def test_wrong_answers_are_found(kind, change, sentence):
    with finds(rf"Own\(\)\.{kind}.*{sentence}"):
        check_likelihood(changed(Probit, kind, change))


def test_answers_that_belong_to_no_density_are_found():
    shifted = changed(Gaussian, "tilted", lambda mean, v, s, c: (v + 0.1, s, c), 0.5)
    with finds(r"Own.*\.tilted: value, beside a sum"):
        check_likelihood(shifted, [0.3])

    class Swapped(Probit):
        expected = Probit.tilted

        def tilted(self, y, mean, variance, power=1.0):
            return (
                Probit.expected(self, y, mean, variance)
                if power == 1.0
                else super().tilted(y, mean, variance, power)
            )

    with finds("expected: value, beside a sum"):
        check_likelihood(Swapped())


@pytest.mark.parametrize("name", ["tilted", "tilted_slopes"])
def test_a_missing_power_is_found(name):
    def without_power(self, y, mean, variance):
        return getattr(Probit, name)(self, y, mean, variance)

    with finds(rf"Own\(\)\.{name}.*power.* raised TypeError"):
        check_likelihood(type("Own", (Probit,), {name: without_power})())


@pytest.mark.second(share=0.37)
@pytest.mark.parametrize(
    "probability, sentence",
    [
        (lambda self, m, v: ndtr((m + 0.1) / np.sqrt(1 + v)), "is .*at y = 1, mean"),
        (lambda self, m, v: ndtr(m / np.sqrt(1 + 2 * v)), "is .*at y = 1, mean"),
        (lambda self, m, v: 2 * ndtr(m / np.sqrt(1 + v)), "is .*at y = 1, mean"),
        (lambda self, m, v: ndtr(0.0), r"has shape \(\), expected \(216,\)"),
        (lambda self, m, v: None + m, "raised TypeError"),
    ],
)
def test_wrong_probabilities_are_found(probability, sentence):
    with finds(rf"Own\(\)\.probability.*{sentence}"):
        check_likelihood(type("Own", (Probit,), {"probability": probability})())


def test_observations_are_asked_for():
    with pytest.raises(ValueError, match="needs y"):
        check_likelihood(Gaussian())
    with finds("must be an instance of skgp_sparse.likelihoods.Likelihood"):
        check_likelihood("probit")


@pytest.mark.parametrize("wrong", ["mean", "variance", "sample"])
def test_a_response_that_is_not_that_of_its_samples_is_found(wrong):
    class Shifted(Gaussian):
        def response(self, mean, variance):
            mean, spread = super().response(mean, variance)
            return mean + 0.5 * (wrong == "mean"), spread * (1 + (wrong == "variance"))

        def sample(self, f, random_state):
            return super().sample(f, random_state) + 0.5 * (wrong == "sample")

    with finds("Shifted.*response"):
        check_likelihood(Shifted(0.2), [0.3])


def test_samples_outside_the_domain_are_found():
    class Confused(Probit):
        def sample(self, f, random_state):
            return 0.5 * (super().sample(f, random_state) + 1.0)

    with finds("labels -1 and 1"):
        check_likelihood(Confused())


@pytest.mark.parametrize("kind", ["expected", "tilted"])
def test_a_wrong_gradient_of_a_parameter_is_found(kind):
    def doubled(self, *row):
        return 2.0 * getattr(Gaussian, f"{kind}_slopes")(self, *row)

    Wrong = type("Wrong", (Gaussian,), {f"{kind}_slopes": doubled})
    Wrong.__init__ = Gaussian.__init__
    with finds(f"Wrong.*{kind}_slopes .*beside central differences"):
        check_likelihood(Wrong(0.2, (1e-3, 1e3)), [0.3])


# sources


class Listed:
    """A source of lists, whose members can be replaced one by one."""

    feature_names = ["a", "b"]

    def __init__(self, **flaws):
        rng = np.random.RandomState(0)
        self.chunks = [(rng.normal(size=(n, 2)), rng.normal(size=n)) for n in (5, 0, 7)]
        self.chunk_sizes, self.passes, self.opened = [5, 0, 7], 0, True
        self.__dict__.update(flaws)

    def chunk(self, k):
        self.passes += k == 0
        return self.chunks[k]

    def close(self):
        self.opened = False


class Unknown(Listed):
    """A source that does not know how many chunks there are."""

    def chunk(self, k):
        return super().chunk(k) if k < 3 else None


@pytest.mark.parametrize("pickles", [False, True])
def test_right_sources_pass(pickles):
    for source in (Listed(), Unknown(chunk_sizes=None), Arrays(np.eye(9), np.zeros(9))):
        assert check_source(source, pickles) is None


def with_chunk(change):
    return type(
        "Own", (Listed,), {"chunk": lambda self, k: change(self, k, *Listed.chunk(self, k))}
    )


@pytest.mark.parametrize(
    "change, sentence",
    [
        (lambda self, k, X, y: (X, y + self.passes), r"second pass: chunk\(0\) has another y"),
        (lambda self, k, X, y: (X + (self.passes == 3), y), "left out: chunk.0. has another X"),
        (lambda self, k, X, y: (X + (not self.opened), y), "after close: chunk.0. has another X"),
        (lambda self, k, X, y: (X * (1 / self.opened), y), "raised ZeroDivisionError"),
        (lambda self, k, X, y: (X[:-1], y[:-1]), "chunk 0 .*: X has 4 rows, but chunk_sizes has 5"),
        (lambda self, k, X, y: (X, y[:-1]), r"chunk 0 .* numbers of samples: \[5, 4\]"),
        (lambda self, k, X, y: [X, y], r"chunk\(0\) raised TypeError: A chunk must be .* Got list"),
        (lambda self, k, X, y: None, r"chunk\(0\) .*must be a tuple.* Got NoneType"),
        (lambda self, k, X, y: (X[:, : 2 - k // 2], y), "chunk 2 .*columns of X. Got 1, before 2"),
        (
            lambda self, k, X, y: (X, y, y**2 if k else None),
            "chunk 2 .*: All chunks .* sample_weight. Got numbers, before None",
        ),
        (lambda self, k, X, y: (X[:, 0], y), "chunk 0 .*2D array, got 1D array instead: X of Own"),
    ],
)
def test_wrong_chunks_are_found(change, sentence):
    with finds(rf"Own.*{sentence}"), np.errstate(all="raise"):
        check_source(with_chunk(change)())


def test_wrong_members_of_sources_are_found():
    for source, sentence in (
        (np.zeros((3, 2)), "must have the members chunk_sizes and chunk"),
        (Listed(chunk_sizes=[]), "has no rows"),
        (
            Listed(feature_names=["a"]),
            "feature_names of .* has 1 names, but the chunks have 2 columns",
        ),
        (Listed(close=lambda: 1 / 0), r"close\(\) raised ZeroDivisionError"),
    ):
        with finds(sentence):
            check_source(source)
    with finds("pickling Listed"):
        check_source(Listed(close=lambda: None), pickles=True)


def test_a_source_that_goes_on_after_it_was_closed_is_asked_for():
    class Database(Listed):
        def chunk(self, k):
            if not self.opened:
                raise RuntimeError("the connection is closed")
            return super().chunk(k)

    with finds(r"Database.chunk\(0\) raised RuntimeError: the connection is closed"):
        check_source(Database())
