"""Pods of all kinds in plain numbers, their kubelets' answers to resizes in place, and the objects that a server has of
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.model.resources import CPU_NAME, MEMORY_NAME

Numbers = dict[str, int]  # by resource: milli-CPU, bytes, or as the resource has it
MIB = 1 << 20
PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"


@dataclass
class Part:
    """A container, or the pod as a whole: what is asked for, what its kubelet allocated, and what it put in place; None
    while no kubelet has said anything.
    """

    name: str
    asked: Numbers
    kind: str = "main"  # or sidecar, init
    limited: bool = False
    allocated: Numbers | None = None
    there: Numbers | None = None

    def counts(self, infeasible: bool) -> Numbers:
        if self.allocated is None or self.there is None:
            return self.asked
        said = {name: max(self.allocated.get(name, 0), self.there.get(name, 0)) for name in self.asked}
        return said if infeasible else {name: max(amount, said[name]) for name, amount in self.asked.items()}

    def resources(self, amounts: Numbers) -> dict[str, dict[str, str]]:
        said = {name: f"{amount}m" if name == CPU_NAME else str(amount) for name, amount in amounts.items()}
        return {"requests": said, "limits": said} if self.limited else {"requests": said}


@dataclass
class ResizedPod:
    """One pod."""

    name: str
    parts: list[Part]
    whole: Part | None = None
    labels: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    priority: int = 0
    created: int = 0  # seconds of the day
    node: str = ""
    pending: str = ""
    ended: bool = False
    ending: bool = False

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def resizable(self) -> list[Part]:
        return [*self.parts, *([self.whole] if self.whole is not None else [])]

    @property
    def is_awaited(self) -> bool:
        """Whether its kubelet has not brought about what is asked for."""
        return any(
            part.allocated is not None and not part.asked == part.allocated == part.there for part in self.resizable
        )

    def takes(self) -> Numbers:
        """What counts on its node and for its quota."""
        infeasible = self.pending == "Infeasible"
        return total([(part.kind, part.counts(infeasible)) for part in self.parts], self._whole(infeasible))

    def _whole(self, infeasible: bool) -> Numbers:
        return self.whole.counts(infeasible) if self.whole is not None else {}

    def has(self) -> Numbers:
        """What its kubelet has allocated."""
        parts = [(part.kind, part.allocated if part.allocated is not None else part.asked) for part in self.parts]
        whole = {} if self.whole is None else (self.whole.allocated or self.whole.asked)
        return total(parts, whole)

    def wants(self) -> Numbers:
        return total([(part.kind, part.asked) for part in self.parts], self.whole.asked if self.whole else {})

    # ---- its kubelet

    def run(self) -> None:
        for part in self.resizable:
            part.allocated, part.there = dict(part.asked), dict(part.asked)

    def allocate(self) -> None:
        self.pending = ""
        for part in self.resizable:
            part.allocated = dict(part.asked)

    def put_in_place(self, parts: Iterable[Part]) -> None:
        for part in parts:
            part.there = dict(part.allocated or part.asked)

    # ---- its object

    def stored(self) -> PodObject:
        """As the server has it."""
        return msgspec.json.decode(msgspec.json.encode(self.manifest()), type=PodObject)

    def manifest(self) -> dict[str, Any]:
        of_kind = {kind: [part for part in self.parts if (part.kind == "main") is kind] for kind in (True, False)}
        spec: dict[str, Any] = {
            "schedulerName": "cotenant",
            "priority": self.priority,
            "containers": [self._container(part) for part in of_kind[True]],
            "initContainers": [self._container(part) for part in of_kind[False]],
        }
        if self.node:
            spec["nodeName"] = self.node
        if self.whole is not None:
            spec["resources"] = self.whole.resources(self.whole.asked)
        meta: dict[str, Any] = {
            "name": self.name,
            "namespace": "default",
            "uid": self.uid,
            "labels": self.labels,
            "annotations": self.notes,
            "creationTimestamp": _time(self.created),
        }
        if self.ending:
            meta |= {"deletionTimestamp": "2026-01-03T00:00:00Z", "deletionGracePeriodSeconds": 30}
        status: dict[str, Any] = {"phase": "Succeeded" if self.ended else "Running" if self.node else "Pending"}
        if all(part.there is not None for part in self.parts):
            status["containerStatuses"] = [_status(part) for part in of_kind[True]]
            status["initContainerStatuses"] = [_status(part) for part in of_kind[False]]
            if self.whole is not None and self.whole.there is not None:
                status["resources"] = self.whole.resources(self.whole.there)
                status["allocatedResources"] = self.whole.resources(self.whole.allocated or {})["requests"]
        conditions = [(PENDING, self.pending)] if self.pending else []
        if any(part.allocated != part.there for part in self.resizable):
            conditions.append((IN_PROGRESS, ""))
        status["conditions"] = [{"type": kind, "status": "True", "reason": why} for kind, why in conditions]
        return {"metadata": meta, "spec": spec, "status": status}

    def _container(self, part: Part) -> dict[str, Any]:
        more = {"restartPolicy": "Always"} if part.kind == "sidecar" else {}
        return {"name": part.name, "resources": part.resources(part.asked), **more}


def _time(second: int) -> str:
    return f"2026-01-02T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def _status(part: Part) -> dict[str, Any]:
    allocated, there = part.allocated or {}, part.there or {}
    return {
        "name": part.name,
        "allocatedResources": part.resources(allocated)["requests"],
        "resources": part.resources(there),
    }


def total(parts: Iterable[tuple[str, Mapping[str, int]]], whole: Mapping[str, int]) -> Numbers:
    """The larger of what runs at last and of each init container beside the sidecars before it; what is asked for the
    pod as a whole comes instead.
    """
    running: Numbers = {}
    sidecars: Numbers = {}
    most: Numbers = {}
    for kind, amounts in sorted(parts, key=lambda pair: pair[0] == "main"):  # init containers are started first
        for name, amount in amounts.items():
            if kind == "init":
                most[name] = max(most.get(name, 0), sidecars.get(name, 0) + amount)
            else:
                running[name] = running.get(name, 0) + amount
            if kind == "sidecar":
                sidecars[name] = sidecars.get(name, 0) + amount
    found = {name: max(running.get(name, 0), most.get(name, 0)) for name in (*running, *most)}
    return found | dict(whole)


def native(cpu_m: int, mib: int) -> Numbers:
    return {CPU_NAME: cpu_m, MEMORY_NAME: mib * MIB}
