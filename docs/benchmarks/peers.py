"""GPflow, GPyTorch, GPBoost, xRFM and CatBoost, run in a virtual environment of their own.

The other scripts start this file with the interpreter of that environment, hand it a
problem in an ``.npz`` file and read one line of JSON from its standard output::

    python peers.py gpflow-eval problem.npz --repeats 7
    python peers.py gpytorch-eval problem.npz --repeats 7
    python peers.py gpflow-fit-predict problem.npz --iterations 500
    python peers.py gpflow-classify problem.npz --iterations 1000
    python peers.py gpflow-svgp-anytime problem.npz --limit 120 --batch 256
    python peers.py gpflow-gplvm problem.npz --iterations 3000 --limit 120
    python peers.py gpytorch-svgp-anytime problem.npz --limit 120 --batch 2000 --anneal 1
    python peers.py gpytorch-fit-predict problem.npz --iterations 500 --limit 240 --rate 0.1
    python peers.py gpboost-fit-predict problem.npz
    python peers.py gpytorch-vnngp-fit-predict problem.npz
    python peers.py xrfm-fit-predict problem.npz
    python peers.py catboost problem.npz
    python peers.py versions

A problem holds ``X`` (n, d), ``y`` (n,), ``Z`` (m, d), ``variance``, ``lengthscales``
(d,), ``noise`` and, for ``gpflow-fit-predict``, ``X_test`` and ``gpflow_kernel``. Everything
is float64, the kernel is squared exponential, unless ``gpflow_kernel`` names another, with
one length scale per input, the bound is that of Titsias (2009), and the gradient is always
taken with respect to the kernel, the noise *and* Z.

What was done to be fair: GPflow runs a compiled ``tf.function`` that is warm before
the clock starts; GPyTorch takes its low-rank (Woodbury) path, with exact Cholesky
factors instead of conjugate gradients. ``value`` is the bound in nats, so that the
caller can check that everybody computed the same thing.

``gpflow-classify`` is classification, ``y`` being 0 and 1: SVGP, by turns a natural-gradient step
for q and a step of Adam for everything else, on all rows or on a random batch of them. Those that
end in ``anytime`` want ``X_test`` and ``y_test``, too, and trace what they predict there. SVGP
takes ``labels`` from the problem, 1 for classification and 0 for regression (the only one of
GPyTorch). With ``--anneal 1``, the step size of Adam falls to zero along a cosine over the limit,
and that of the natural gradients with it, to a tenth.

``gpflow-gplvm`` is the Bayesian GP-LVM. Its problem is ``Y``, the ``mean`` of q, one number
``variance_of_q``, ``Z``, ``lengthscales`` and ``noise``, and ``--limit`` is in CPU seconds.

``gpytorch-fit-predict`` and ``gpboost-fit-predict`` want ``X``, ``y`` and ``X_test`` only. The one
is the exact process with conjugate gradients, in float32, at GPyTorch's default settings, the other
the Vecchia approximation at those of GPBoost; both with Matern 5/2. So do
``gpytorch-vnngp-fit-predict``, the variational process of nearest neighbours (32 of them, 20 epochs
of batches of 256 rows), and ``xrfm-fit-predict``. ``catboost`` wants ``labels``, too, which says
whether y is labels.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def read_problem(path):
    with np.load(path) as f:
        return {key: f[key] for key in f.files}


def timed(function, repeats, warm_up=2):
    """Seconds of each of `repeats` calls, after `warm_up` calls that do not count."""
    for _ in range(warm_up):
        function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return seconds


def gpflow_svgp_anytime(args):
    """The same of SVGP, on random batches of `--batch` rows."""
    import gpflow
    import tensorflow as tf

    problem = read_problem(args.problem)
    if problem["labels"]:
        likelihood = gpflow.likelihoods.Bernoulli()
    else:
        likelihood = gpflow.likelihoods.Gaussian(float(problem["noise"]))
    model = svgp_model(problem, likelihood)
    measure = test_scores(model, problem)
    measure()
    if not args.anneal:
        step, anneal = svgp_step(model, *tensors(problem), args), None
    else:
        for part in (model.q_mu, model.q_sqrt):
            gpflow.set_trainable(part, False)
        gamma = tf.Variable(args.gamma, dtype=tf.float64)
        natural = gpflow.optimizers.NaturalGradient(gamma)
        step, adam = svgp_step_of_adam(model, *tensors(problem), natural, args)

        def anneal(share):
            adam.learning_rate.assign(args.rate * cosine(share))
            gamma.assign(args.gamma * max(cosine(share), SMALLEST_GAMMA))

    found = raced(step, measure, args.limit, PACE, anneal=anneal)
    return found | {"versions": versions()}


SMALLEST_GAMMA = 0.1  # times the first step size of natural gradients


def cosine(share):
    """From one to zero."""
    return 0.5 * (1.0 + np.cos(np.pi * min(share, 1.0)))


# -- GPflow, other likelihoods ---------------------------------------------------------


def gpflow_poisson(args):
    """Means and mean log density of test counts after `--limit` seconds of steps."""
    import gpflow

    problem = read_problem(args.problem)
    problem["y"] = problem["y"].astype(float)
    model = svgp_model(problem, gpflow.likelihoods.Poisson())
    model.mean_function = gpflow.functions.Constant(float(np.log(problem["y"].mean())))
    step = svgp_step(model, *tensors(problem), args)
    seconds = run_steps(step, args.limit)
    mean = model.predict_y(problem["X_test"])[0].numpy()[:, 0]
    target = problem["y_test"].astype(float)[:, None]
    density = model.predict_log_density((problem["X_test"], target)).numpy()
    found = {"mean": mean.tolist(), "density": float(density.mean()), "seconds": seconds}
    return found | {"versions": versions()}


def gpflow_softmax(args):
    """Probabilities of test classes after `--limit` seconds of steps."""
    import gpflow
    import tensorflow as tf

    problem = read_problem(args.problem)
    n_classes = int(problem["y"].max()) + 1
    kernel = getattr(gpflow.kernels, str(problem["gpflow_kernel"]))
    model = gpflow.models.SVGP(
        kernel(variance=float(problem["variance"]), lengthscales=float(problem["lengthscales"])),
        gpflow.likelihoods.Softmax(n_classes),
        problem["Z"].copy(),
        num_latent_gps=n_classes,
        num_data=len(problem["X"]),
    )
    X, Y = tf.constant(problem["X"]), tf.constant(problem["y"][:, None].astype(np.int32))
    seconds = run_steps(svgp_step(model, X, Y, args), args.limit)
    parts = [
        model.predict_y(tf.constant(part))[0].numpy()
        for part in np.array_split(problem["X_test"], 20)
    ]
    found = {"probability": np.vstack(parts).tolist(), "seconds": seconds}
    return found | {"versions": versions()}


def run_steps(step, limit):
    """Step after step; the first one, which compiles, does not count."""
    step()
    start = time.perf_counter()
    while time.perf_counter() - start < limit:
        step()
    return time.perf_counter() - start


# -- GPyTorch --------------------------------------------------------------------------


def gpytorch_model(problem):
    import gpytorch
    import torch

    X, y, Z = (torch.tensor(problem[key]) for key in ("X", "y", "Z"))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1]))

    class SGPR(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.InducingPointKernel(
                base, inducing_points=Z, likelihood=likelihood
            )

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = SGPR().double()
    base.outputscale = float(problem["variance"])
    base.base_kernel.lengthscale = torch.tensor(problem["lengthscales"])
    likelihood.noise = float(problem["noise"])
    return model.train(), X, y


@contextlib.contextmanager
def gpytorch_exact(n):
    """No conjugate gradients, no Lanczos: exact factors on the low-rank path.

    `fast_computations.log_prob` stays on: switched off, GPyTorch factorises the n by n
    matrix, which no user of inducing points wants. The low-rank operator answers it
    exactly, from a Cholesky factor of an m by m matrix.
    """
    from gpytorch import settings

    low_rank = settings.fast_computations(covar_root_decomposition=False, solves=False)
    with settings.max_cholesky_size(n + 1), settings.debug(False), low_rank:
        yield


def gpytorch_eval(args):
    import gpytorch

    model, X, y = gpytorch_model(read_problem(args.problem))
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)

    def evaluate():
        model.zero_grad(set_to_none=True)
        loss = -mll(model(X), y)
        loss.backward()
        return loss.item()

    with gpytorch_exact(len(X)):
        seconds = timed(evaluate, args.repeats)
        value = -evaluate() * len(X)  # GPyTorch divides by the number of rows
    return {"seconds": seconds, "value": value, "versions": versions()}


def gpytorch_svgp(problem):
    """A variational process with natural parameters, zero mean, Matern 5/2, in float64."""
    import gpytorch
    import torch
    from gpytorch import variational

    Z = torch.tensor(problem["Z"])

    class SVGP(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = variational.NaturalVariationalDistribution(len(Z))
            super().__init__(variational.VariationalStrategy(self, Z, q))
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=Z.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model, likelihood = SVGP().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    model.covar_module.outputscale = float(problem["variance"])
    model.covar_module.base_kernel.lengthscale = torch.tensor(problem["lengthscales"])
    likelihood.noise = float(problem["noise"])
    return model, likelihood


def gpytorch_svgp_step(model, likelihood, X, y, args):
    """A function of no argument: one step of both optimisers, and a function that anneals them.

    Both take their steps from one gradient, as in GPyTorch's example of natural gradients.
    """
    import gpytorch
    import torch

    others = [*model.hyperparameters(), *likelihood.parameters()]
    natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(X), lr=args.gamma)
    adam = torch.optim.Adam(others, lr=args.rate)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    torch.manual_seed(0)

    def step():
        rows = torch.randint(len(X), (args.batch or len(X),))
        natural.zero_grad()
        adam.zero_grad()
        loss = -bound(model(X[rows]), y[rows])
        loss.backward()
        natural.step()
        adam.step()

    def anneal(share):
        adam.param_groups[0]["lr"] = args.rate * cosine(share)
        natural.param_groups[0]["lr"] = args.gamma * max(cosine(share), SMALLEST_GAMMA)

    return step, anneal


def gpytorch_svgp_anytime(args):
    """Trace of (seconds, density, error) of SVGP for regression; predictions do not count."""
    import torch
    from linear_operator.utils.errors import NanError, NotPSDError

    problem = read_problem(args.problem)
    X, y, X_test = (torch.tensor(problem[key]) for key in ("X", "y", "X_test"))
    y_test = problem["y_test"]
    model, likelihood = gpytorch_svgp(problem)

    def measure():
        model.eval()
        likelihood.eval()
        with torch.no_grad():
            found = [likelihood(model(part)) for part in X_test.split(2000)]
            mean = torch.cat([one.mean for one in found]).numpy()
            variance = torch.cat([one.variance for one in found]).numpy()
        model.train()
        likelihood.train()
        density = -0.5 * ((y_test - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        return float(np.mean(density)), float(np.sqrt(np.mean((y_test - mean) ** 2)))

    model.train()
    likelihood.train()
    step, anneal = gpytorch_svgp_step(model, likelihood, X, y, args)
    errors = (NanError, NotPSDError, torch.linalg.LinAlgError)
    anneal = anneal if args.anneal else None
    return raced(step, measure, args.limit, PACE, errors, anneal) | {"versions": versions()}


# -- GPyTorch, the exact process with conjugate gradients ------------------------------

QUERIES = 500  # of one prediction


def gpytorch_process(X, y):
    """The exact process in float32, constant mean, Matern 5/2, and its likelihood."""
    import gpytorch

    likelihood = gpytorch.likelihoods.GaussianLikelihood()

    class Exact(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model = Exact()
    model.covar_module.outputscale = 1.0
    model.covar_module.base_kernel.lengthscale = X.shape[1] ** 0.5
    likelihood.noise = 0.1
    return model, likelihood


def gpytorch_learn(model, likelihood, args):
    """Steps of Adam until they are enough or time is up; how many there were."""
    import gpytorch
    import torch

    model.train()
    likelihood.train()
    torch.manual_seed(0)
    (X,), y = model.train_inputs, model.train_targets
    adam = torch.optim.Adam(model.parameters(), lr=args.rate)
    evidence = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    start = time.perf_counter()
    for step in range(args.iterations):
        if time.perf_counter() - start > args.limit:
            return step
        adam.zero_grad()
        loss = -evidence(model(X), y)
        loss.backward()
        adam.step()
    return args.iterations


def gpytorch_predictions(model, likelihood, X_test, limit):
    """Means, variances, and how these were computed.

    By solves for every query, which is the default; where those would take longer than the limit,
    from GPyTorch's cache of the covariance (`fast_pred_var`).
    """
    import gpytorch
    import torch

    model.eval()
    likelihood.eval()
    parts = X_test.split(QUERIES)

    def moments(part):
        found = likelihood(model(part))
        return found.mean.numpy(), found.variance.numpy()

    with torch.no_grad():
        moments(X_test[:1])  # the mean of all queries needs one solve
        start = time.perf_counter()
        found = [moments(parts[0])]
        fast = (time.perf_counter() - start) * len(parts) > limit
        with gpytorch.settings.fast_pred_var(fast):
            found = [] if fast else found
            found += [moments(part) for part in parts[len(found) :]]
    mean, variance = map(np.concatenate, zip(*found))
    return mean, variance, "fast_pred_var" if fast else "solves"


def gpytorch_fit_predict(args):
    """Mean and standard deviation of the observations at the test points, or what went wrong."""
    import torch
    from linear_operator.utils.errors import NotPSDError

    problem = read_problem(args.problem)
    X, y, X_test = (torch.tensor(problem[key]).float() for key in ("X", "y", "X_test"))
    model, likelihood = gpytorch_process(X, y)
    start = time.perf_counter()
    try:
        steps = gpytorch_learn(model, likelihood, args)
        learned = time.perf_counter()
        mean, variance, how = gpytorch_predictions(model, likelihood, X_test, args.limit)
    except (RuntimeError, NotPSDError) as error:
        return {"failed": str(error).strip()[:200]}
    seconds = {"fit_seconds": learned - start, "predict_seconds": time.perf_counter() - learned}
    about = {"steps": steps, "variance": how, "noise": likelihood.noise.item()}
    return moments_of(mean, variance) | seconds | about | {"versions": versions()}


def moments_of(mean, variance):
    """What a prediction says, in plain numbers, and the resident memory at most."""
    std = np.sqrt(np.asarray(variance, dtype=float))
    return {"mean": np.asarray(mean, float).tolist(), "std": std.tolist(), "peak_mb": peak_mb()}


def peak_mb():
    """Resident memory of this process at most so far; None where there is no /proc (not Linux)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    found = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]
    return found[0] if found else None


# -- GPBoost, Vecchia's approximation --------------------------------------------------


def gpboost_fit_predict(args):
    """Mean and standard deviation of the observations at the test points."""
    import gpboost

    problem = read_problem(args.problem)
    clock = Laps()
    model = gpboost.GPModel(
        gp_coords=problem["X"],
        cov_function="matern_ard",
        cov_fct_shape=2.5,
        gp_approx="vecchia",
        likelihood="gaussian",
    )
    model.fit(y=problem["y"])
    seconds = clock.lap("fit")
    found = model.predict(gp_coords_pred=problem["X_test"], predict_var=True)
    seconds |= clock.lap("predict")
    known = {name: version(name) for name in ("gpboost", "numpy")}
    return moments_of(found["mu"], found["var"]) | seconds | {"versions": known}


# -- GPyTorch, variational process of nearest neighbours -------------------------------

NEIGHBOURS, OF_A_BATCH, EPOCHS = 32, 256, 20


def gpytorch_vnngp(X):
    """All rows are inducing points, Matern 5/2, float32; the example of GPyTorch's documents."""
    import gpytorch
    from gpytorch import variational

    class VNNGP(gpytorch.models.ApproximateGP):
        def __init__(self):
            q = variational.MeanFieldVariationalDistribution(len(X))
            sizes = {"k": NEIGHBOURS, "training_batch_size": OF_A_BATCH}
            super().__init__(variational.NNVariationalStrategy(self, X, q, **sizes))
            self.mean_module = gpytorch.means.ZeroMean()
            base = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=X.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

        def __call__(self, x, prior=False, **options):
            return self.variational_strategy(x=x, prior=False, **options)

    return VNNGP(), gpytorch.likelihoods.GaussianLikelihood()


def gpytorch_vnngp_learn(model, likelihood, y):
    """Twenty epochs of Adam (step size 0.01); every batch is some rows and their neighbours."""
    import gpytorch
    import torch

    torch.manual_seed(0)
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    for _ in range(EPOCHS * model.variational_strategy._total_training_batches):
        adam.zero_grad()
        found = model(x=None)
        loss = -bound(found, y[model.variational_strategy.current_training_indices])
        loss.backward()
        adam.step()


def gpytorch_vnngp_fit_predict(args):
    """Mean and standard deviation of the observations at the test points."""
    import torch

    problem = read_problem(args.problem)
    X, y, X_test = (torch.tensor(problem[key]).float() for key in ("X", "y", "X_test"))
    clock = Laps()
    model, likelihood = gpytorch_vnngp(X)
    gpytorch_vnngp_learn(model.train(), likelihood.train(), y)
    seconds = clock.lap("fit")
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = [likelihood(model(part)) for part in X_test.split(QUERIES)]
        moments = [torch.cat(list(map(of, found))).numpy() for of in (mean_of, variance_of)]
    known = {name: version(name) for name in ("gpytorch", "torch")}
    return moments_of(*moments) | seconds | clock.lap("predict") | {"versions": known}


def mean_of(normal):
    return normal.mean


def variance_of(normal):
    return normal.variance


# -- xRFM, recursive feature machines --------------------------------------------------


def xrfm_fit_predict(args):
    """Means with one standard deviation, the root mean squared error of rows held aside.

    They are a random tenth, by which xRFM stops and tunes, and are not learned. In float32.
    """
    import torch
    from xrfm import xRFM

    problem = read_problem(args.problem)
    X, y, X_test = (torch.tensor(problem[key]).float() for key in ("X", "y", "X_test"))
    aside, used = np.split(np.random.RandomState(0).permutation(len(X)), [len(X) // 10])
    clock = Laps()
    model = xRFM(device="cpu", tuning_metric="mse", random_state=0, verbose=False)
    model.fit(X[used], y[used], X[aside], y[aside])
    seconds = clock.lap("fit")
    mean = np.ravel(model.predict(X_test))
    seconds |= clock.lap("predict")
    variance = np.mean((np.ravel(model.predict(X[aside])) - y[aside].numpy()) ** 2)
    known = {name: version(name) for name in ("xrfm", "torch")}
    return moments_of(mean, np.full(len(mean), variance)) | seconds | {"versions": known}


# -- gradient boosting -----------------------------------------------------------------


class Laps:
    """Seconds by the clock and of the processors since the last lap."""

    def __init__(self):
        self.last = self.now()

    def now(self):
        return time.perf_counter(), time.process_time()

    def lap(self, what):
        (start, cpu), self.last = self.last, self.now()
        return {f"{what}_seconds": self.last[0] - start, f"{what}_cpu_seconds": self.last[1] - cpu}


# -- GPflow ----------------------------------------------------------------------------


def gpflow_model(problem):
    import gpflow

    kernel_class = getattr(gpflow.kernels, str(problem.get("gpflow_kernel", "SquaredExponential")))
    kernel = kernel_class(variance=float(problem["variance"]), lengthscales=problem["lengthscales"])
    return gpflow.models.SGPR(
        (problem["X"], problem["y"][:, None]),
        kernel=kernel,
        inducing_variable=problem["Z"].copy(),
        noise_variance=float(problem["noise"]),
    )


def gpflow_value_and_grad(model):
    """A compiled function of no argument: the loss and its gradients."""
    import tensorflow as tf

    loss = model.training_loss
    variables = model.trainable_variables

    @tf.function
    def value_and_grad():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = loss()
        return value, tape.gradient(value, variables)

    return value_and_grad


def gpflow_eval(args):
    model = gpflow_model(read_problem(args.problem))
    value_and_grad = gpflow_value_and_grad(model)

    def evaluate():  # to NumPy, as an optimiser would see it
        value, grads = value_and_grad()
        return float(value), [g.numpy() for g in grads]

    seconds = timed(evaluate, args.repeats)
    return {"seconds": seconds, "value": -evaluate()[0], "versions": versions()}


class Trace:
    """SciPy callback that notes the time and the bound of each iteration."""

    def __init__(self, compile_seconds, every=10):
        self.start = time.perf_counter() - compile_seconds
        self.every = every
        self.rows = []

    def __call__(self, intermediate_result):
        elapsed = time.perf_counter() - self.start
        self.rows.append((elapsed, -float(intermediate_result.fun)))
        if len(self.rows) % self.every == 0:
            print(len(self.rows), *self.rows[-1], file=sys.stderr, flush=True)


def gpflow_compile(optimizer, loss, variables):
    """Fill the optimiser's cache of compiled functions; seconds that cost."""
    function = optimizer.eval_func(loss, variables, tf_fun_args={}, compile=True)
    start_point = optimizer.initial_parameters(variables)
    first = timed(lambda: function(start_point), repeats=1, warm_up=0)[0]
    second = timed(lambda: function(start_point), repeats=1, warm_up=0)[0]
    return max(first - second, 0.0)


def gpflow_optimise(model, iterations):
    import gpflow

    optimizer = gpflow.optimizers.Scipy()
    loss = model.training_loss_closure(compile=False)
    variables = model.trainable_variables
    compile_seconds = gpflow_compile(optimizer, loss, variables)
    trace = Trace(compile_seconds)
    result = optimizer.minimize(
        loss,
        variables,
        callback=trace,
        options={"maxiter": iterations, "maxfun": 10 * iterations},
    )
    return {
        "trace": trace.rows,
        "compile_seconds": compile_seconds,
        "bound": -float(result.fun),
        "iterations": int(result.nit),
        "evaluations": int(result.nfev),
        "message": str(result.message),
    }


def gpflow_parameters(model):
    return {
        "variance": float(model.kernel.variance.numpy()),
        "lengthscales": model.kernel.lengthscales.numpy().tolist(),
        "noise": float(model.likelihood.variance.numpy()),
    }


def gpflow_fit_predict(args):
    """Mean and standard deviation of the observations at the test points."""
    problem = read_problem(args.problem)
    model = gpflow_model(problem)
    result = gpflow_optimise(model, args.iterations)
    mean, variance = model.posterior().predict_f(problem["X_test"])
    noise = model.likelihood.variance.numpy()
    del result["trace"]
    return result | {
        "mean": mean.numpy()[:, 0].tolist(),
        "std": np.sqrt(variance.numpy()[:, 0] + noise).tolist(),
        "parameters": gpflow_parameters(model),
        "versions": versions(),
    }


def gpflow_gplvm(args):
    """Bound, ``q`` and trace of (CPU seconds, bound) of the Bayesian GP-LVM."""
    import gpflow

    problem = read_problem(args.problem)
    mean, scales = problem["mean"], problem["lengthscales"]
    model = gpflow.models.BayesianGPLVM(
        problem["Y"],
        X_data_mean=mean,
        X_data_var=np.full(mean.shape, float(problem["variance_of_q"])),
        kernel=gpflow.kernels.SquaredExponential(lengthscales=scales),
        inducing_variable=problem["Z"].copy(),
    )
    model.likelihood.variance.assign(float(problem["noise"]))
    optimizer, variables = gpflow.optimizers.Scipy(), model.trainable_variables
    loss = model.training_loss_closure(compile=False)
    gpflow_compile(optimizer, loss, variables)
    trace, start = [], time.process_time()

    def watch(intermediate_result):
        seconds = time.process_time() - start
        trace.append((seconds, -float(intermediate_result.fun)))
        if seconds >= args.limit:
            raise StopIteration

    limits = {"maxiter": args.iterations, "maxfun": 10 * args.iterations}
    result = optimizer.minimize(loss, variables, callback=watch, options=limits)
    return {
        "trace": trace,
        "bound": -float(result.fun),
        "seconds": time.process_time() - start,
        "iterations": int(result.nit),
        "message": str(result.message),
        "mean": model.X_data_mean.numpy().tolist(),
        "s": model.X_data_var.numpy().tolist(),
        "lengthscales": model.kernel.lengthscales.numpy().tolist(),
        "versions": {name: version(name) for name in ("gpflow", "tensorflow", "numpy", "scipy")},
    }


# -- GPflow, classification ------------------------------------------------------------


def svgp_model(problem, likelihood):
    import gpflow

    kernel_class = getattr(gpflow.kernels, str(problem["gpflow_kernel"]))
    return gpflow.models.SVGP(
        kernel_class(variance=float(problem["variance"]), lengthscales=problem["lengthscales"]),
        likelihood,
        problem["Z"].copy(),
        num_data=len(problem["X"]),
    )


def svgp_step(model, X, Y, args):
    """A compiled function of no argument: one step of each optimiser."""
    import gpflow

    for part in (model.q_mu, model.q_sqrt):
        gpflow.set_trainable(part, False)
    natural = gpflow.optimizers.NaturalGradient(args.gamma)
    if args.lbfgs:
        return svgp_step_of_lbfgs(model, X, Y, natural, args.lbfgs)
    return svgp_step_of_adam(model, X, Y, natural, args)[0]


def svgp_step_of_lbfgs(model, X, Y, natural, iterations):
    """Ten natural-gradient steps for q, then some iterations of L-BFGS for the rest."""
    import gpflow
    import tensorflow as tf

    optimizer, variables = gpflow.optimizers.Scipy(), model.trainable_variables
    loss = model.training_loss_closure((X, Y), compile=False)
    gpflow_compile(optimizer, loss, variables)

    @tf.function
    def infer():
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])

    def step():
        for _ in range(10):
            infer()
        optimizer.minimize(loss, variables, options={"maxiter": iterations})

    return step


def svgp_step_of_adam(model, X, Y, natural, args):
    """The step, and the optimiser whose step size may be set."""
    import tensorflow as tf

    adam, variables = tf.optimizers.Adam(args.rate), model.trainable_variables
    adam.build(variables)
    tf.random.set_seed(0)

    def batch():
        if not args.batch:
            return X, Y
        rows = tf.random.uniform([args.batch], maxval=len(X), dtype=tf.int32)
        return tf.gather(X, rows), tf.gather(Y, rows)

    @tf.function
    def step():
        part = batch()
        natural.minimize(lambda: -model.elbo(part), [(model.q_mu, model.q_sqrt)])
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = -model.elbo(part)
        adam.apply_gradients(zip(tape.gradient(value, variables), variables))
        return value

    return step, adam


def tensors(problem):
    import tensorflow as tf

    return tf.constant(problem["X"]), tf.constant(problem["y"][:, None].astype(float))


def gpflow_classify(args):
    """Probabilities of class 1 at the test points; the likelihood is GPflow's own probit."""
    import gpflow

    problem = read_problem(args.problem)
    X, Y = tensors(problem)
    model = svgp_model(problem, gpflow.likelihoods.Bernoulli())
    step = svgp_step(model, X, Y, args)
    for _ in range(args.iterations):
        step()
    probability = model.predict_y(problem["X_test"])[0].numpy()[:, 0]
    found = {"probability": probability.tolist(), "bound": float(model.elbo((X, Y)))}
    return found | {"versions": versions()}


def raced(step, measure, limit, pace, errors=None, anneal=None):
    """Trace of (seconds of the steps, *measure()), each time when the seconds grew by `pace`.

    `anneal` is called with the share of the limit that is over, before every step; this takes time.
    `errors` are those that say that a Cholesky factorisation failed, by default TensorFlow's.
    """
    if errors is None:
        import tensorflow as tf

        errors = tf.errors.InvalidArgumentError
    one = step
    if anneal is not None:
        share = [0.0]

        def one():
            anneal(share[0])
            step()

    first, second = timed(one, repeats=2, warm_up=0)
    trace, elapsed, due, steps, message = [], 2.0 * second, 0.0, 2, "time is up"
    try:
        while elapsed < limit:
            if anneal is not None:
                share[0] = elapsed / limit
            elapsed += timed(one, repeats=1, warm_up=0)[0]
            steps += 1
            if elapsed >= min(due, limit):
                trace.append((elapsed, *measure()))
                due = pace * elapsed
    except errors as error:
        message = str(error)[:200]
    return {
        "trace": trace,
        "steps": steps,
        "compile_seconds": max(first - second, 0.0),
        "message": message,
    }


# -- GPflow, what it predicts and when -------------------------------------------------

PACE = 1.15  # of the seconds from one look at the test part to the next


def test_scores(model, problem):
    """A function of no argument: mean log density of the test part, and its error.

    The error is the root of the mean square, or the share of wrong labels.
    """
    import tensorflow as tf

    X, y = tf.constant(problem["X_test"]), problem["y_test"]
    labels = bool(problem.get("labels", 0))
    predict_y = tf.function(lambda: model.predict_y(X))

    def measure():
        mean, variance = (part.numpy()[:, 0] for part in predict_y())
        if labels:
            chosen = np.where(y > 0, mean, 1.0 - mean)
            return float(np.mean(np.log(chosen))), float(np.mean((mean > 0.5) != (y > 0)))
        density = -0.5 * ((y - mean) ** 2 / variance + np.log(2 * np.pi * variance))
        return float(np.mean(density)), float(np.sqrt(np.mean((y - mean) ** 2)))

    return measure


def boosted(make, labels, seed, X, y, X_test):
    """What a model of all rows predicts: probabilities, or means with one standard deviation.

    It is the root mean squared error of a random tenth of the rows after a fit of the others, whose
    seconds do not count.
    """
    clock = Laps()
    model = make().fit(X, y)
    seconds = clock.lap("fit")
    answer = (model.predict_proba if labels else model.predict)(X_test)
    seconds |= clock.lap("predict")
    if labels:
        return {"probability": answer.tolist()} | seconds
    aside, used = np.split(np.random.RandomState(seed).permutation(len(X)), [len(X) // 10])
    error = y[aside] - make().fit(X[used], y[used]).predict(X[aside])
    std = np.full(len(X_test), np.sqrt(np.mean(error**2)))
    return {"mean": answer.tolist(), "std": std.tolist()} | seconds


def catboost(args):
    """CatBoost at its defaults, on as many threads as OpenMP is allowed."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    problem = read_problem(args.problem)
    labels = bool(problem.pop("labels"))
    kind = CatBoostClassifier if labels else CatBoostRegressor
    options = {"verbose": False, "allow_writing_files": False, "random_seed": 0}
    threads = int(os.environ.get("OMP_NUM_THREADS", -1))
    make = partial(kind, thread_count=threads, **options)
    found = boosted(make, labels, 0, *(problem[key] for key in ("X", "y", "X_test")))
    known = {"catboost": version("catboost"), "numpy": version("numpy")}
    return found | {"peak_mb": peak_mb(), "versions": known}


# -- command line ----------------------------------------------------------------------


def versions(args=None):
    names = ("gpflow", "tensorflow", "gpytorch", "torch", "numpy", "scipy")
    return {name: version(name) for name in names}


COMMANDS = {
    "gpflow-eval": gpflow_eval,
    "gpflow-fit-predict": gpflow_fit_predict,
    "gpflow-classify": gpflow_classify,
    "gpflow-svgp-anytime": gpflow_svgp_anytime,
    "gpflow-gplvm": gpflow_gplvm,
    "gpflow-poisson": gpflow_poisson,
    "gpflow-softmax": gpflow_softmax,
    "gpytorch-eval": gpytorch_eval,
    "gpytorch-svgp-anytime": gpytorch_svgp_anytime,
    "gpytorch-fit-predict": gpytorch_fit_predict,
    "gpboost-fit-predict": gpboost_fit_predict,
    "gpytorch-vnngp-fit-predict": gpytorch_vnngp_fit_predict,
    "xrfm-fit-predict": xrfm_fit_predict,
    "catboost": catboost,
    "versions": versions,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("problem", nargs="?")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--iterations", type=int, default=500)
    parser.add_argument("--gamma", type=float, default=0.5, help="of natural gradients")
    parser.add_argument("--rate", type=float, default=0.02, help="of Adam")
    parser.add_argument("--lbfgs", type=int, default=0, help="iterations instead of Adam")
    parser.add_argument("--batch", type=int, default=0, help="rows; 0: all of them")
    parser.add_argument("--anneal", type=int, default=0, help="1: to zero over the limit")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds")
    args = parser.parse_args()
    with contextlib.redirect_stdout(sys.stderr):  # standard output is for the JSON
        result = COMMANDS[args.command](args)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
