"""Signature and docstring of an estimator on a cluster, from those of the plain one.

A parameter that the plain estimator is given is there on the cluster, too, and described once.
"""

import inspect

_CLIENT = """client : distributed.Client, default=None
    The client of the cluster that works on dask collections. None means the client that is current
    when `fit` is called. Clones share it. Copies and pickles do not contain it."""


def init_with_client(plain):
    """``__init__`` with the parameters of a plain estimator and `client`."""

    def __init__(self, kernel=None, *, client=None, **parameters):
        plain.__init__(self, kernel, **parameters)
        self.client = client

    signature = inspect.signature(plain.__init__)
    own = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
    __init__.__signature__ = signature.replace(parameters=[*signature.parameters.values(), own])
    return __init__


def described(plain):
    """Decorator: the docstring of a class goes on with the parameters of the plain estimator.

    Its own siblings and examples come after these.
    """
    sections = inspect.getdoc(plain).split("\nParameters\n----------\n")[1]
    parameters, rest = sections.split("\n\nAttributes\n----------\n")
    attributes, rest = rest.split("\n\nSee Also\n")
    _, references = rest.split("\n\nReferences\n")
    references, _ = references.split("\n\nExamples\n")
    client = "client_ : distributed.Client\n    The client that `fit` uses."

    def describe(cls):
        summary, own = inspect.getdoc(cls).split("\n\nSee Also\n")
        siblings, examples = own.split("\n\nExamples\n")
        cls.__doc__ = (
            f"{summary}\n\nParameters\n----------\n{parameters}\n{_CLIENT}\n\n"
            f"Attributes\n----------\n{attributes}\n{client}\n\nSee Also\n{siblings}\n\n"
            f"References\n{references}\n\nExamples\n{examples}\n"
        )
        return cls

    return describe
