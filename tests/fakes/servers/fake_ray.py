"""A double of the calls of Ray's client that `cotenant_lab.ray_cluster` makes: tasks run in this process, when they are
waited for.

What crosses the network is pickled, as there: the function by name, its arguments and its value. `fault` decides what
becomes of a submission; `tests/fault/lab/test_ray_cluster.py` has the same contract on a real cluster.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from cotenant_lab.ray_cluster import Assignment


class RayError(Exception):
    pass


class RayTaskError(RayError):
    """A task raised an exception, or a worker could not load it."""


class WorkerCrashedError(RayError):
    pass


class NodeDiedError(RayError):
    pass


class LocalRayletDiedError(RayError):
    pass


class OutOfMemoryError(RayError):
    pass


class ObjectLostError(RayError):
    pass


_ERRORS = (
    RayError,
    RayTaskError,
    WorkerCrashedError,
    NodeDiedError,
    LocalRayletDiedError,
    OutOfMemoryError,
    ObjectLostError,
)


def no_fault(assignment: Assignment, attempt: int) -> Exception | None:
    return None


class FakeRay:
    """The library, connected. `attempts`: submissions by specification; `max_running`: the most tasks that were
    submitted and not fetched.
    """

    exceptions = SimpleNamespace(**{error.__name__: error for error in _ERRORS})

    def __init__(
        self,
        cpus: int = 2,
        fault: Callable[[Assignment, int], Exception | None] = no_fault,
        refuses: Exception | None = None,
    ) -> None:
        self._cpus = cpus
        self._fault = fault
        self._refuses = refuses
        self._submitted: dict[int, tuple[bytes, Exception | None]] = {}
        self._numbers = 0
        self.attempts: dict[Any, int] = {}
        self.cancelled: list[int] = []
        self.max_running = 0
        self.options: dict[str, object] = {}
        self.connected = False
        self.broken = False

    def init(self, address: str, log_to_driver: bool, logging_level: int) -> None:
        if self._refuses is not None:
            raise self._refuses
        self.connected = True

    def shutdown(self) -> None:
        self.connected = False

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(self._cpus), "memory": 1e9} if self._cpus else {"memory": 1e9}

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True}, {"Alive": True}, {"Alive": False}]

    def remote(self, **options: object) -> Callable[[Callable[[Any], Any]], Any]:
        self.options = options
        return lambda function: SimpleNamespace(remote=lambda argument: self._submit(function, argument))

    def wait(self, references: list[int], num_returns: int, timeout: float) -> tuple[list[int], list[int]]:
        self._check()
        return references[:num_returns], references[num_returns:]

    def get(self, reference: int) -> Any:
        self._check()
        sent, fault = self._submitted.pop(reference)
        if fault is not None:
            raise fault
        function, argument = pickle.loads(sent)
        return pickle.loads(pickle.dumps(function(argument)))

    def cancel(self, reference: int, force: bool) -> None:
        self.cancelled.append(reference)

    def _submit(self, function: Callable[[Any], Any], argument: Assignment) -> int:
        self._check()
        self.attempts[argument.spec] = self.attempts.get(argument.spec, 0) + 1
        fault = self._fault(argument, self.attempts[argument.spec])
        self._numbers += 1
        self._submitted[self._numbers] = pickle.dumps((function, argument)), fault
        self.max_running = max(self.max_running, len(self._submitted))
        return self._numbers

    def _check(self) -> None:
        if self.broken:
            raise ConnectionError("Client is shutting down.")
