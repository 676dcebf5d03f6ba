"""A virtual machine as a list shows it, and the verbs that change it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MachineState(StrEnum):
    """Where a machine stands."""

    STOPPED = "stopped"
    WAITING = "waiting"  # wanted, and not yet on a node
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    MIGRATING = "migrating"
    STOPPING = "stopping"
    FAILED = "failed"
    UNKNOWN = "unknown"


class MachineVerb(StrEnum):
    """What a machine can be told."""

    START = "start"
    STOP = "stop"
    RESTART = "restart"
    PAUSE = "pause"
    UNPAUSE = "unpause"
    MIGRATE = "migrate"
    RESIZE = "resize"


@dataclass(frozen=True, slots=True)
class MachineSize:
    """What a machine has, or is to get. `flavor`: the name of a size that the platform keeps; 0 = not said."""

    vcpus: int = 0
    memory_mib: int = 0
    flavor: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine. `incarnation` differs after each start; `why` says what holds it, in the platform's words."""

    namespace: str  # OpenStack: the project
    name: str
    uid: str
    state: MachineState
    size: MachineSize
    node: str = ""
    incarnation: str = ""
    why: str = ""
    class_name: str = ""
    pod: str = ""  # the pod that runs it; OpenStack has none
    pending: str = ""  # what was changed and has not taken hold, and when it will
    group: str = ""  # OpenStack: its server group, with the policy

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"
