"""A pod of a Kubernetes node as an operator names it: NAME, NAMESPACE/NAME, or NAMESPACE/NAME/CONTAINER."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.model.errors import InvalidInput

FIND = "find-pods"  # the verb by which a controller looks for the agent of a pod's node
_MAX_NAME = 253
_PART = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PodName:
    """`namespace` empty: any; `container` empty: the usual one."""

    pod: str
    namespace: str = ""
    container: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.namespace, self.pod, self.container) if part)

    @classmethod
    def read(cls, field: str, text: str) -> PodName:
        """Raises `InvalidInput`."""
        parts = text.split("/")
        if not is_pod_name(text):
            expected = "a container's guid, or a pod as NAME, NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER"
            raise InvalidInput(field, text[:64], expected)
        namespace, pod, container = ("", *parts, "") if len(parts) == 1 else (*parts, "")[:3]
        return cls(pod, namespace, container)


def is_pod_name(text: str) -> bool:
    """Whether it can be read."""
    parts = text.split("/")
    return len(parts) <= 3 and all(len(part) <= _MAX_NAME and _PART.fullmatch(part) for part in parts)


@dataclass(frozen=True, slots=True)
class PodContainer:
    """A running container of a pod, by its runtime's `id`."""

    namespace: str
    pod: str
    container: str
    id: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.container}"


@dataclass(frozen=True, slots=True)
class FindPods:
    """Which pods of this name (`NAME`, `NAMESPACE/NAME`) run on this host? With a `session`: of that open terminal,
    also where the pod is gone. Answered by `FoundPods`.
    """

    name: str
    session: str = ""


@dataclass(frozen=True, slots=True)
class FoundPods:
    """As NAMESPACE/NAME; that of a terminal as it was opened."""

    names: tuple[str, ...] = ()
