"""Containers as a question of size: what each requests and may use, what its program was told, what its node gave it.

Only CPU and memory: nothing else can be changed in place. None is *not set*, which is not zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class ContainerSize:
    """Requests and limits of one container."""

    cpu_request_m: int | None = None
    cpu_limit_m: int | None = None
    memory_request_bytes: int | None = None
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        for resource, request, limit in (
            ("cpu", self.cpu_request_m, self.cpu_limit_m),
            ("memory", self.memory_request_bytes, self.memory_limit_bytes),
        ):
            for amount in (request, limit):
                if amount is not None and amount < 0:
                    raise InvalidInput(f"{resource} of a container", amount, "0 or more")
            if request is not None and limit is not None and request > limit:
                raise InvalidInput(f"{resource} request", request, f"the limit, {limit}, at most")

    @property
    def is_guaranteed(self) -> bool:
        """Whether its requests are its limits, so that neither may change alone without another QoS class."""
        return (
            self.cpu_request_m is not None
            and self.memory_request_bytes is not None
            and (self.cpu_request_m, self.memory_request_bytes) == (self.cpu_limit_m, self.memory_limit_bytes)
        )


@dataclass(frozen=True, slots=True)
class ContainerProgram:
    """What a container's program is started with. `env`: values, None where the value is taken from elsewhere."""

    words: tuple[str, ...] = ()  # command and arguments
    env: tuple[tuple[str, str | None], ...] = ()
    has_more_env: bool = False  # from whole ConfigMaps or Secrets, whose names are not known here
    is_known: bool = True  # False: a copy without arguments and environment
    is_cut: bool = False  # longer than what is read


@dataclass(frozen=True, slots=True)
class SizedContainer:
    """One container of a pod."""

    name: str
    size: ContainerSize
    program: ContainerProgram = ContainerProgram()
    cpu_needs_restart: bool = False  # resizePolicy
    memory_needs_restart: bool = False
    allocated: ContainerSize | None = None  # what its kubelet says that it has; None = nothing said
    restarts: int = 0
    was_oom_killed: bool = False  # the last time that it ended


@dataclass(frozen=True, slots=True)
class SizedPod:
    """One pod with its main containers and what is known of a resize that goes on."""

    namespace: str
    name: str
    uid: str
    node: str
    owner_kind: str  # the controller's; "" = none
    owner_name: str
    is_running: bool
    is_ready: bool
    containers: tuple[SizedContainer, ...]
    owner_uid: str = ""
    pending: str = ""  # reason of PodResizePending: Deferred or Infeasible; "" = none is pending
    pending_why: str = ""
    in_progress: bool = False  # PodResizeInProgress
    progress_error: str = ""
    resized_by_others_s: float = -inf  # when somebody else set an amount in place that it still has; Unix time
    allocated_by: tuple[str, ...] = ()  # resources of which a scheduler gave it CPUs or NUMA nodes of its own
    has_sidecars: bool = False  # init containers that go on beside the main ones
    has_pod_resources: bool = False  # amounts of the whole pod are set: those of its containers are within them

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_of_one_container(self) -> bool:
        """Whether what is measured of the whole pod is of its only container."""
        return len(self.containers) == 1 and not self.has_sidecars
