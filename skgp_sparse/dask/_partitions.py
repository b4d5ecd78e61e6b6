"""Futures of the parts of the rows, and the one way to ask workers for something.

Only these futures live as long as a fit. Those of an answer are released when it has come, or has
not. What is lost with a worker is computed again by dask: nothing is scattered.
"""

import asyncio
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock

import cloudpickle
import dask
from dask import delayed
from distributed import Client, get_client
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from skgp_sparse._ground.parallel import slices
from skgp_sparse._ground.plain_text import as_text
from skgp_sparse.dask import _tasks

_LOST = (asyncio.CancelledError, CancelledError, CommClosedError)
_FAN_IN = 8  # sums that are added at once: a tree that depends on nothing but their number
_CONFIG = Lock()  # what dask.config sets for a while, it sets for all threads
_QUIET = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}  # it is meant to be large


def resolve_client(client, name):
    """The user's client, or the one that is current."""
    if client is None:
        try:
            client = get_client()
        except ValueError:
            raise RuntimeError(
                f"{name} works on a cluster of dask, and there is no client. Create one before, "
                "for example distributed.Client(), or pass it as client."
            ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise TypeError(
            f"The 'client' parameter of {name} must be None or a distributed.Client that is not "
            f"asynchronous. Got {as_text(client)} instead."
        )
    _check_running(client)
    return client


def ask(client, wanted):
    """Results that workers compute of a list of delayed objects; none stays on the cluster."""
    futures = send(client, wanted)
    try:
        with in_words(client):
            return client.gather(futures)
    finally:
        release(futures)


def send(client, wanted):
    """Futures of delayed objects."""
    with in_words(client), _CONFIG, dask.config.set(_QUIET):
        return client.compute(wanted, optimize_graph=False)


def release(futures):
    """Let the cluster forget, whether it is still there or not."""
    for future in futures:
        with suppress(Exception):
            future.release()


@contextmanager
def in_words(client):
    """Context in which an error that comes from the cluster says what to do."""
    _check_running(client)
    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers of the cluster died in the same task of the "
            "fit. In most cases they lack memory. Use smaller partitions, fewer threads per "
            "worker, or more memory per worker. The logs of the workers say more."
        ) from error
    except _LOST as error:
        _check_running(client)
        raise RuntimeError(
            "The cluster lost rows of the table and cannot compute them again, or cancelled the "
            f"fit: {error}. Persist or load the table again, and call fit again."
        ) from error
    except Exception:
        _check_running(client)
        raise


def _check_running(client):
    if client.status not in ("running", "connecting"):
        raise RuntimeError(
            f"The client of the cluster is not connected (its status is {client.status!r}). Pass "
            "a client that is open until fit is over, and call fit again."
        )


def once(thing):
    """Anything as one delayed object, which the workers hand to each other and unpickle once."""
    return delayed(cloudpickle.loads, pure=False)(cloudpickle.dumps(thing))


@dataclass(frozen=True, eq=False)
class Partitions:
    """Parts of the rows on the workers, none of which is empty.

    Parameters
    ----------
    client : Client
    futures : list of Future of ArrayDataset
    """

    client: Client
    futures: list

    def each(self, function, *args, rows=None):
        """``function(part, *args)`` of all parts, in order.

        With `rows`, a dict, it is ``function(part, *args, rows[k])`` of the parts whose numbers k
        are its keys.
        """
        call, shared = delayed(function, pure=False), [once(arg) for arg in args]
        if rows is None:
            return ask(self.client, [call(part, *shared) for part in self.futures])
        wanted = [call(self.futures[k], *shared, selected) for k, selected in rows.items()]
        return ask(self.client, wanted)

    def sums(self, asked, own, leave):
        """Sums of a visit, and what it left of each part.

        Parameters
        ----------
        asked : tuple
            What `visit` wants for all parts.
        own : list of tuple
            What `visit` wants for each part.
        leave : bool
            Whether anything is left.
        """
        call = delayed(_tasks.visit if leave else _tasks.sums_of_visit, pure=False, nout=2)
        shared, left = once(asked), []
        sums = [call(shared, part, cloudpickle.dumps(one)) for part, one in zip(self.futures, own)]
        if leave:
            sums, left = zip(*sums)
        add = delayed(_tasks.total, pure=False)
        while len(sums) > 1:
            sums = [add(*sums[some]) for some in slices(len(sums), _FAN_IN)]
        total, *left = ask(self.client, [*sums, *left])
        return total, left
