"""The owner's table: who else writes a knob of a kubelet's group, when, with what, and what our value does to that
write.

A value of ours can be undone by the next write of a group's owner, or make that write fail, and then a pod does not
start or the kubelet itself does not. One row for each writer of a knob, as data. `ruling.py` derives from the rows how
a knob may be held; the stand-in of a kubelet in the tests makes the same writes and is compared with a real one.
Limits: kubelets 1.30 to 1.37, runc 1.1 and newer by containerd or CRI-O, systemd 245 and newer; crun, which at an
update writes what was asked and nothing else, counts as runc. What an administrator's own tools write is not known
here.

Source: Kubernetes, pkg/kubelet/cm (qos_container_manager_linux.go, pod_container_manager_linux.go,
node_container_manager_linux.go, cgroup_manager_linux.go, cpumanager), pkg/kubelet/kuberuntime (in-place resize);
containerd, CRI's UpdateContainerResources; runc, update.go; opencontainers/cgroups, fs, fs2 and systemd managers;
Linux, kernel/sched (a weight of an idle group, a quota below the burst, a v1 quota above the parent's) and
kernel/cgroup/cpuset-v1.c (a list outside of the parent's); systemd, src/core/cgroup.c, seen with 252.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.groups import Driver, Level
from cotenant.model.machine.knob import Knob


class KnobWriter(StrEnum):
    """Who writes besides us."""

    KUBELET = "the kubelet"
    CPU_MANAGER = "the kubelet's static CPU manager"
    MEMORY_QOS = "the kubelet's memory QoS"
    RUNTIME = "the container runtime"
    SYSTEMD = "systemd"


class OwnerEffect(StrEnum):
    """What a value of ours does to the other's next write."""

    LOST = "lost"  # the other's value replaces ours
    FAILS = "fails"  # the kernel refuses the other's write


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """One writer of knobs. None for `driver`, `cgroup_version`, `qos` = any. `restricts`: only a value below what
    stood before has the effect.
    """

    knobs: frozenset[Knob]
    levels: frozenset[Level]
    writer: KnobWriter
    when: str
    writes: str
    effect: OwnerEffect
    driver: Driver | None = None
    cgroup_version: int | None = None
    qos: frozenset[KubernetesQoS] | None = None
    since: tuple[int, int] | None = None  # first version of the kubelet that does
    restricts: bool = False


_WEIGHTS = frozenset({Knob.CPU_WEIGHT})
_IDLE = frozenset({Knob.CPU_IDLE})
_QUOTA = frozenset({Knob.CPU_MAX})
_BURST = frozenset({Knob.CPU_BURST})
_CPUSET = frozenset({Knob.CPUSET_CPUS})
_LIMITED = frozenset({KubernetesQoS.BURSTABLE, KubernetesQoS.GUARANTEED})
_BEST_EFFORT = frozenset({KubernetesQoS.BEST_EFFORT})
_RESIZE = (1, 33)  # in-place resize of pods is on by default
_MINUTELY = "at its start, each minute, and when a pod starts or ends"
_IN_PLACE = "at an in-place resize"
_SYSTEMD_KNOBS = frozenset(
    {
        Knob.CPU_MAX,
        Knob.CPU_IDLE,
        Knob.CPU_WEIGHT,
        Knob.CPUSET_CPUS,
        Knob.MEMORY_MIN,
        Knob.MEMORY_LOW,
        Knob.MEMORY_HIGH,
        Knob.MEMORY_MAX,
    }
)

OWNERS: tuple[OwnerRow, ...] = (
    OwnerRow(
        _WEIGHTS,
        frozenset({Level.NODE}),
        KnobWriter.KUBELET,
        "at its start",
        "the shares of the node's allocatable CPU",
        OwnerEffect.LOST,
    ),
    OwnerRow(
        _CPUSET | frozenset({Knob.MEMORY_MAX}),
        frozenset({Level.NODE}),
        KnobWriter.KUBELET,
        "at its start",
        "the node's CPUs, and the memory for all pods",
        OwnerEffect.LOST,
    ),
    OwnerRow(
        _IDLE,
        frozenset({Level.NODE}),
        KnobWriter.KUBELET,
        "at its start",
        "cpu.weight, which an idle group refuses",
        OwnerEffect.FAILS,
    ),
    OwnerRow(
        _WEIGHTS,
        frozenset({Level.QOS}),
        KnobWriter.KUBELET,
        _MINUTELY,
        "the least weight for best effort, the sum of requests for burstable",
        OwnerEffect.LOST,
    ),
    OwnerRow(
        _IDLE,
        frozenset({Level.QOS}),
        KnobWriter.KUBELET,
        _MINUTELY,
        "cpu.weight, which an idle group refuses: it then cannot start",
        OwnerEffect.FAILS,
    ),
    OwnerRow(
        _QUOTA,
        frozenset({Level.NODE, Level.QOS, Level.POD}),
        KnobWriter.RUNTIME,
        "when a container starts or is resized",
        "the container's quota, which cgroup v1 refuses above its parents'",
        OwnerEffect.FAILS,
        cgroup_version=1,
        qos=_LIMITED,
        restricts=True,
    ),
    OwnerRow(
        _QUOTA,
        frozenset({Level.NODE}),
        KnobWriter.RUNTIME,
        "when a container starts or is resized",
        "the container's quota, which cgroup v1 refuses above its parents'",
        OwnerEffect.FAILS,
        cgroup_version=1,
        restricts=True,
    ),
    OwnerRow(
        _WEIGHTS | _QUOTA | frozenset({Knob.MEMORY_MAX}),
        frozenset({Level.POD, Level.CONTAINER}),
        KnobWriter.KUBELET,
        _IN_PLACE,
        "what the new requests and limits say",
        OwnerEffect.LOST,
        qos=_LIMITED,
        since=_RESIZE,
    ),
    OwnerRow(
        _IDLE,
        frozenset({Level.POD, Level.CONTAINER}),
        KnobWriter.KUBELET,
        _IN_PLACE,
        "cpu.weight, which an idle group refuses",
        OwnerEffect.FAILS,
        qos=_LIMITED,
        since=_RESIZE,
    ),
    OwnerRow(
        _BURST,
        frozenset({Level.POD, Level.CONTAINER}),
        KnobWriter.KUBELET,
        _IN_PLACE,
        "cpu.max, which the kernel refuses below the burst",
        OwnerEffect.FAILS,
        qos=_LIMITED,
        since=_RESIZE,
    ),
    OwnerRow(
        _WEIGHTS,
        frozenset({Level.POD}),
        KnobWriter.KUBELET,
        "when a pod has ended and its volumes remain",
        "the least weight",
        OwnerEffect.LOST,
    ),
    OwnerRow(
        _IDLE,
        frozenset({Level.CONTAINER}),
        KnobWriter.RUNTIME,
        "at each update of a container, for its CPU list or a resize",
        "all of the container's CPU settings, cpu.weight among them, which an idle group refuses",
        OwnerEffect.FAILS,
    ),
    OwnerRow(
        _WEIGHTS | _QUOTA | frozenset({Knob.MEMORY_MAX}),
        frozenset({Level.CONTAINER}),
        KnobWriter.RUNTIME,
        "at each update of a container, for its CPU list or a resize",
        "the whole of what the container was started with, and on cgroup v2 also a quota that it does not have, as max",
        OwnerEffect.LOST,
    ),
    OwnerRow(
        _BURST,
        frozenset({Level.CONTAINER}),
        KnobWriter.CPU_MANAGER,
        "when a container's list changes, by the runtime",
        "the whole of what the container was started with, cpu.max among it, which the kernel refuses below the burst",
        OwnerEffect.FAILS,
        qos=_LIMITED,
    ),
    OwnerRow(
        _CPUSET,
        frozenset({Level.CONTAINER}),
        KnobWriter.CPU_MANAGER,
        "when a container starts, and each ten seconds where the list differs",
        "the container's CPUs, or those that no container owns",
        OwnerEffect.LOST,
    ),
    OwnerRow(
        _CPUSET,
        frozenset({Level.NODE, Level.QOS, Level.POD}),
        KnobWriter.CPU_MANAGER,
        "when a container starts, and each ten seconds where the list differs",
        "a list for the container, which cgroup v1 refuses outside of its parents'",
        OwnerEffect.FAILS,
        cgroup_version=1,
        restricts=True,
    ),
    OwnerRow(
        _CPUSET,
        frozenset({Level.POD}),
        KnobWriter.CPU_MANAGER,
        "when a container starts",
        "a list for the container, of which a narrower list of the pod takes CPUs away",
        OwnerEffect.LOST,
        cgroup_version=2,
        qos=_LIMITED,
    ),
    OwnerRow(
        frozenset({Knob.MEMORY_MIN, Knob.MEMORY_LOW}),
        frozenset({Level.NODE, Level.QOS, Level.POD, Level.CONTAINER}),
        KnobWriter.MEMORY_QOS,
        _MINUTELY,
        "protection by requests",
        OwnerEffect.LOST,
        cgroup_version=2,
    ),
    OwnerRow(
        frozenset({Knob.MEMORY_HIGH}),
        frozenset({Level.CONTAINER}),
        KnobWriter.MEMORY_QOS,
        "when a container starts or is resized",
        "a throttling limit between request and limit",
        OwnerEffect.LOST,
        cgroup_version=2,
    ),
    OwnerRow(
        _SYSTEMD_KNOBS,
        frozenset({Level.NODE, Level.QOS, Level.POD, Level.CONTAINER}),
        KnobWriter.SYSTEMD,
        "at each property that the kubelet sets, at a daemon-reload, and when a group beside it starts",
        "the unit's properties, or the default where it knows none",
        OwnerEffect.LOST,
        driver=Driver.SYSTEMD,
        cgroup_version=2,
    ),
)
