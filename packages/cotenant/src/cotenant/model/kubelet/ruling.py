"""How a knob of a group may be held beside its owners: by writing its file, through systemd, or not at all.

The rows of the owner's table concern some nodes only, and several may concern one knob. A row that makes another's
write fail refuses the hold; so does one by which the other replaces our value on its own account, again and again; one
of systemd asks for its own means, where systemd can be reached and has such a property. What is undone only when a
pod's own spec changes (a resize) is written all the same: its owner has asked for another value, and the policy
computes ours from that.
Limits: a kubelet whose version is not known counts as one that resizes; one whose CPU manager is not known as one
without the static policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.kubelet.groups import Driver, GroupKind, Level, kind_of
from cotenant.model.kubelet.owners import OWNERS, KnobWriter, OwnerEffect, OwnerRow
from cotenant.model.machine.knob import Knob, KnobTarget

# Properties that SetUnitProperties takes; the others of a unit are nobody's but ours.
SYSTEMD_PROPERTIES = {
    Knob.CPU_MAX: 242,  # with its period
    Knob.CPU_WEIGHT: 232,
    Knob.CPU_IDLE: 252,
    Knob.CPUSET_CPUS: 244,
    Knob.MEMORY_MIN: 240,
    Knob.MEMORY_LOW: 231,
    Knob.MEMORY_HIGH: 231,
    Knob.MEMORY_MAX: 231,
}
"""By knob, the first version of systemd that has its property."""


class HoldingMeans(StrEnum):
    """How a knob is held."""

    WRITE = "write"
    SYSTEMD = "systemd"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ruling:
    """`reason` says who else writes the knob; "" where nobody does. `raises_only`: a value below what stood before
    would be refused.
    """

    means: HoldingMeans
    reason: str = ""
    raises_only: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether the knob may not be held."""
        return self.means is HoldingMeans.REFUSED


_FREE = Ruling(HoldingMeans.WRITE)


def ruling(target: KnobTarget, facts: KubeletFacts) -> Ruling:
    """How this knob of this group may be held. A group that is not a kubelet's is written, by systemd's means where
    it is a unit of systemd.
    """
    kind = kind_of(target.group)
    if kind is None:
        return _of_unit(target, facts)
    return ruling_of(target.knob, kind, facts)


def ruling_of(knob: Knob, kind: GroupKind, facts: KubeletFacts) -> Ruling:
    """How this knob may be held on groups of this kind."""
    rows = rows_of(knob, kind, facts)
    for row in rows:
        if row.effect is OwnerEffect.FAILS and not row.restricts:
            return Ruling(HoldingMeans.REFUSED, f"{row.writer} writes {row.when}: {row.writes}")
    for row in rows:
        if row.effect is OwnerEffect.LOST and _is_contested(row, kind):
            return Ruling(HoldingMeans.REFUSED, f"{row.writer} writes it {row.when}: {row.writes}")
    restricting = next((row for row in rows if row.restricts), None)
    reason = "" if restricting is None else f"{restricting.writer} writes {restricting.when}: {restricting.writes}"
    if any(row.writer is KnobWriter.SYSTEMD for row in rows):
        if _has_property(knob, facts):
            return Ruling(HoldingMeans.SYSTEMD, reason, restricting is not None)
        lacks = "systemd cannot be reached and" if facts.systemd is None else f"systemd {facts.systemd}, without it,"
        reason = reason or f"{lacks} writes its own value when a pod starts or a setting changes"
    return Ruling(HoldingMeans.WRITE, reason, restricting is not None)


def rows_of(knob: Knob, kind: GroupKind, facts: KubeletFacts) -> tuple[OwnerRow, ...]:
    """The rows of the owner's table that concern this knob of groups of this kind on such a node."""
    return tuple(row for row in OWNERS if knob in row.knobs and _concerns(row, kind, facts))


def _concerns(row: OwnerRow, kind: GroupKind, facts: KubeletFacts) -> bool:
    if kind.level not in row.levels or (row.driver is not None and row.driver is not kind.driver):
        return False
    if row.cgroup_version is not None and row.cgroup_version != facts.cgroup_version:
        return False
    if row.qos is not None and kind.qos not in row.qos:
        return False
    if row.since is not None and facts.version is not None and facts.version < row.since:
        return False
    if row.writer is KnobWriter.CPU_MANAGER:
        return facts.is_static
    return row.writer is not KnobWriter.MEMORY_QOS or facts.memory_qos is True


def _is_contested(row: OwnerRow, kind: GroupKind) -> bool:
    """Whether the other writes again and again, whatever the pod's owner does."""
    if row.writer in (KnobWriter.CPU_MANAGER, KnobWriter.MEMORY_QOS):
        return True
    return row.writer is KnobWriter.KUBELET and kind.level in (Level.NODE, Level.QOS)


def _of_unit(target: KnobTarget, facts: KubeletFacts) -> Ruling:
    name = target.group.rpartition("/")[2]
    is_unit = name.endswith((".slice", ".service", ".scope"))
    is_systemd = is_unit and facts.cgroup_version == 2 and _has_property(target.knob, facts)
    return Ruling(HoldingMeans.SYSTEMD) if is_systemd else _FREE


def _has_property(knob: Knob, facts: KubeletFacts) -> bool:
    since = SYSTEMD_PROPERTIES.get(knob)
    return since is not None and facts.systemd is not None and facts.systemd >= since


def kinds() -> tuple[GroupKind, ...]:
    """Every kind of group, for tables."""
    found = []
    for driver in Driver:
        found.append(GroupKind(Level.NODE, None, driver))
        for level in (Level.QOS, Level.POD, Level.CONTAINER):
            classes = [KubernetesQoS.BEST_EFFORT, KubernetesQoS.BURSTABLE]
            if level is not Level.QOS:
                classes.append(KubernetesQoS.GUARANTEED)
            found += [GroupKind(level, qos, driver) for qos in classes]
    return tuple(found)
