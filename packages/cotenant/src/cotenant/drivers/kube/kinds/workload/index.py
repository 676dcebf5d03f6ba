"""Which workload a pod belongs to: by a label that its kind declares, else by the owners above it, of whatever kinds
are between.

The index is told the objects of declared kinds, and the controllers of others as far as they are watched. A label
counts once the object that it names is known. A pod is read again when what it depends on changes: `depends_on` names
that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cotenant.drivers.kube.kinds.parts import OwnerReference
from cotenant.model.cluster.observed import OwnedBy, PodWorkload
from cotenant.model.groups.gang import LIGHT_NAME, POD_GROUP, X_POD_GROUP, GangNotes
from cotenant.model.groups.quota import NAME as QUOTA
from cotenant.model.groups.workload_kind import WorkloadKind, WorkloadState, chain_of

_GROUP_LABELS = (POD_GROUP, X_POD_GROUP, LIGHT_NAME)


@dataclass(frozen=True, slots=True)
class Membership:
    """What a workload says of a pod. `gang`: the gang that it is in by declaration."""

    workload: PodWorkload | None = None
    gang: GangNotes | None = None
    quota: str = ""  # that of its workload's label; "" = none


NO_MEMBERSHIP = Membership()


class WorkloadIndex:
    """The workloads of declared kinds. `between`: kinds of other owners of pods whose controllers it will be told."""

    def __init__(self, kinds: Sequence[WorkloadKind] = (), between: Iterable[str] = ()) -> None:
        self.kinds = tuple(kinds)
        self._owning = frozenset((*(entry.kind for entry in kinds), *between))
        self._labelled = tuple(entry for entry in kinds if entry.name_label)
        self._declared = {(entry.group, entry.kind): entry for entry in kinds}
        self._by_key: dict[tuple[str, str], WorkloadState] = {}  # kind's plural.group, namespace/name
        self._by_uid: dict[str, WorkloadState] = {}
        self._owners: dict[str, OwnedBy] = {}  # UID of an object -> its controller

    def put(self, state: WorkloadState, owner: OwnedBy | None) -> bool:
        """An object of a declared kind was created or changed. Returns whether that is news for its pods."""
        key = (_name(state.kind), state.key)
        before = self._by_key.get(key)
        if before is not None and before.uid != state.uid:
            self._by_uid.pop(before.uid, None)
        self._by_key[key] = self._by_uid[state.uid] = state
        moved = self.put_owner(state.uid, owner)
        return moved or before is None or _for_pods(before) != _for_pods(state)

    def drop(self, kind: WorkloadKind, key: str) -> str:
        """An object of a declared kind was deleted. Returns its UID, empty if it was not known."""
        found = self._by_key.pop((_name(kind), key), None)
        if found is None:
            return ""
        self._by_uid.pop(found.uid, None)
        self._owners.pop(found.uid, None)
        return found.uid

    def put_owner(self, uid: str, owner: OwnedBy | None) -> bool:
        """The controller of an object of any kind; None = it has none, or is gone. Returns whether that is news."""
        if self._owners.get(uid) == owner:
            return False
        if owner is None:
            del self._owners[uid]
        else:
            self._owners[uid] = owner
        return True

    def depends_on(
        self, namespace: str, labels: Mapping[str, str], owners: Iterable[OwnerReference]
    ) -> tuple[str, ...]:
        """What a pod's workload depends on: the UID of its controller, and names of labelled workloads.

        Nothing where no kind is declared.
        """
        if not self.kinds:
            return ()
        named = [
            f"{_name(kind)} {namespace}/{labels[kind.name_label]}"
            for kind in self._labelled
            if kind.name_label in labels
        ]
        controller = next((entry for entry in owners if entry.controller), None)
        if controller is None or controller.kind not in self._owning:
            return tuple(named)
        return (*named, controller.uid)

    def of(self, namespace: str, labels: Mapping[str, str], owners: Iterable[OwnerReference]) -> Membership:
        """The workload of a pod, and its gang."""
        if not self._by_uid:
            return NO_MEMBERSHIP
        named = self._by_label(namespace, labels)
        controller = next(
            (
                OwnedBy(entry.api_version, entry.kind, entry.name, entry.uid, True)
                for entry in owners
                if entry.controller
            ),
            None,
        )
        chain = chain_of(named.owned if named is not None else controller, self._owners.get)
        states = [found for entry in chain.owners if (found := self._by_uid.get(entry.uid)) is not None]
        if not states:
            return NO_MEMBERSHIP
        top = states[-1]
        role = next((labels[entry.kind.role_label] for entry in states if entry.kind.role_label in labels), "")
        workload = PodWorkload(
            top.owned,
            tuple(f"{entry.kind} {entry.name}" for entry in chain.owners if entry.uid != top.uid),
            role,
            top.is_paused,
            chain.refused,
        )
        quotas = (entry.labels[QUOTA] for entry in states if entry.labels and QUOTA in entry.labels)
        return Membership(workload, self._gang(states, labels), next(quotas, ""))

    def state(self, uid: str) -> WorkloadState | None:
        """What the object of a declared kind says; None for another UID."""
        return self._by_uid.get(uid)

    def _by_label(self, namespace: str, labels: Mapping[str, str]) -> WorkloadState | None:
        for kind in self._labelled:
            name = labels.get(kind.name_label)
            if name is not None:
                found = self._by_key.get((_name(kind), f"{namespace}/{name}"))
                if found is not None:
                    return found
        return None

    def _gang(self, states: Sequence[WorkloadState], labels: Mapping[str, str]) -> GangNotes | None:
        """By the nearest workload with a minimum; none where a label names a PodGroup."""
        if any(entry in labels for entry in _GROUP_LABELS):
            return None
        found = next((entry for entry in states if entry.minimum > 1), None)
        if found is None:
            return None
        name = found.key.partition("/")[2]
        group = labels.get(found.kind.group_label, "") if found.kind.group_label else ""
        return GangNotes(":".join(filter(None, (found.kind.kind, name, group))), found.minimum)


def _name(kind: WorkloadKind) -> str:
    return f"{kind.plural}.{kind.group}"


def named(state: WorkloadState) -> str:
    """As `depends_on` names a labelled workload."""
    return f"{_name(state.kind)} {state.key}"


def _for_pods(state: WorkloadState) -> tuple[object, ...]:
    return state.uid, state.minimum, state.is_paused, (state.labels or {}).get(QUOTA)
