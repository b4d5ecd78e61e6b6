"""Signature and docstring of an estimator on a cluster, from those of the plain one.

A parameter that the plain estimator is given is there on the cluster, too, and described once.
"""

import inspect
import re

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
    """Decorator: the docstring of a class goes on with the sections of the plain estimator.

    Its own siblings and examples are in the place of theirs.
    """

    def describe(cls):
        sections = _sections(plain) | _sections(cls)
        sections.pop("Notes", None)
        sections["Parameters"] += f"\n{_CLIENT}"
        sections["Attributes"] += "\nclient_ : distributed.Client\n    The client that `fit` uses."
        texts = (f"{name}\n{'-' * len(name)}\n{text}" for name, text in sections.items() if name)
        cls.__doc__ = "\n\n".join([sections[""], *texts]) + "\n"
        return cls

    return describe


def _sections(cls):
    """The docstring of a class by its headings, "" for what is before the first one."""
    summary, *others = re.split(r"\n\n([A-Z][\w ]*)\n-+\n", inspect.getdoc(cls))
    return {"": summary, **dict(zip(others[::2], others[1::2]))}
