"""What was found on a node, as the doctor judges it."""

from __future__ import annotations

from dataclasses import dataclass, field

from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob


@dataclass(frozen=True, slots=True)
class KeeperFound:
    """The keeper that the agent would use. `problem`: why it did not answer, "" where it did."""

    problem: str = ""
    roots: tuple[str, ...] = ()
    knobs: frozenset[Knob] = frozenset(Knob)


@dataclass(frozen=True, slots=True)
class OtherWriter:
    """A process that writes knobs of this node, besides the kubelet, its runtime and systemd. `groups`: below these
    only; () = any. Not `is_certain`: this account may not read whether it writes here.
    """

    what: str  # "koordlet", "another keeper", ...
    where: str  # "process 7"
    groups: tuple[str, ...] = ()
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class NodeFound:
    """Of the fields that are texts and have a default: what is needed for it here, "" where it is there."""

    cgroups: str  # "v1", "v2", "hybrid"
    kubelet: KubeletFacts = field(default_factory=KubeletFacts)
    roots: tuple[str, ...] = ()  # of kubelets
    absent: tuple[str, ...] = ()  # groups of `writable` that do not exist
    unsupported: tuple[tuple[Knob, str], ...] = ()  # knobs, and what they need
    keeper: KeeperFound | None = None  # None: the agent is its own
    writers: tuple[OtherWriter, ...] = ()
    watch: str = ""  # notices what others write
    pressure: str = ""
    short_windows: str = ""  # of pressure
    run_queue: str = ""  # the eBPF probe
    schedulers: str = ""  # of zones, of the machine
    sub_schedulers: str = ""  # of zones, of one group
    runtime_hook: str = ""  # NRI
    cards: tuple[str, ...] = ()  # what GPUs that the ladder may limit cannot do, a sentence each
    seal: str = ""  # what it means that the scheduler's certificate is not there
