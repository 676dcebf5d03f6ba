"""What the webhook knows of the cluster: profiles, namespaces, priority classes, quotas, and where quotas are limited
at creation, the requests of their pods.

A review must be answered without asking the API server, and two reviews that come together must see each other although
neither object is stored yet. Values kept by watches; what a review admitted counts as provisional until the watch shows
it, or for `PROVISIONAL_S` where the API server never stored it.
Limits: replicas do not see each other's provisional values; a quota may be overrun by what several admit at once, and
the scheduler still holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cotenant.model.cluster.colocation_profile import ColocationProfile, PriorityClassValue
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.observed import NamespaceFacts
from cotenant.model.groups.quota import Quota
from cotenant.model.resources import NOTHING, Amounts
from cotenant.policy.quota.pods import quota_of_pod

PROVISIONAL_S = 10.0


@dataclass(frozen=True, slots=True)
class KnownQuota:
    """A quota with what the webhook needs beside its value. `key`: the object's, as its reader has it."""

    key: str
    quota: Quota
    admission: Amounts | None = None  # limits at creation instead of the maximum


@dataclass(frozen=True, slots=True)
class QuotaCountedPod:
    """A pod as its quota counts it. `label`: of its quota."""

    uid: str
    namespace: str
    label: str
    request: Amounts = NOTHING


class WebhookFacts:
    """The webhook's knowledge. `clock` gives seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.profiles: dict[str, ColocationProfile] = {}
        self.classes: dict[str, PriorityClassValue] = {}
        self._clock = clock
        self._namespaces: dict[str, Labels] = {}
        self._quotas: dict[str, KnownQuota] = {}
        self._admitted: dict[str, tuple[float, KnownQuota]] = {}
        self._members: dict[str, QuotaCountedPod] = {}
        self._sums: dict[tuple[str, str], dict[str, int]] = {}  # of the members' requests, by namespace and label
        self._admitted_members: dict[str, tuple[float, QuotaCountedPod]] = {}
        self._by_name: dict[str, Quota] | None = None

    # ---- from watches

    def profile_seen(self, profile: ColocationProfile) -> None:
        """A profile is there, or has changed."""
        self.profiles[profile.name] = profile

    def profile_gone(self, name: str) -> None:
        """A profile is not there, or cannot be read."""
        self.profiles.pop(name, None)

    def class_seen(self, found: PriorityClassValue) -> None:
        """A PriorityClass is there."""
        self.classes[found.name] = found

    def class_gone(self, name: str) -> None:
        """A PriorityClass is gone."""
        self.classes.pop(name, None)

    def namespace_seen(self, namespace: NamespaceFacts) -> None:
        """A namespace is there, with its labels."""
        self._namespaces[namespace.name] = namespace.labels

    def namespace_gone(self, name: str) -> None:
        """A namespace is gone."""
        self._namespaces.pop(name, None)

    def quota_seen(self, quota: KnownQuota) -> None:
        """A quota is there, or has changed."""
        self._quotas[quota.key] = quota
        self._admitted.pop(quota.key, None)
        self._by_name = None

    def quota_gone(self, key: str) -> None:
        """A quota is not there."""
        self._quotas.pop(key, None)
        self._admitted.pop(key, None)
        self._by_name = None

    def member_seen(self, member: QuotaCountedPod) -> None:
        """A pod is there that has not ended."""
        self._count(self._members.pop(member.uid, None), -1)
        self._members[member.uid] = member
        self._count(member, 1)
        self._admitted_members.pop(member.uid, None)

    def member_gone(self, uid: str) -> None:
        """A pod has ended or is gone."""
        self._count(self._members.pop(uid, None), -1)
        self._admitted_members.pop(uid, None)

    # ---- from reviews

    def quota_admitted(self, quota: KnownQuota) -> None:
        """A review admitted this quota; it is not stored yet."""
        self._admitted[quota.key] = (self._clock() + PROVISIONAL_S, quota)
        self._by_name = None

    def member_admitted(self, member: QuotaCountedPod) -> None:
        """A review admitted this pod, or a change of it; it is not stored yet."""
        self._admitted_members[member.uid] = (self._clock() + PROVISIONAL_S, member)

    # ---- for reviews

    def namespace_labels(self, name: str) -> Labels | None:
        """The labels of a namespace; None where it is not known."""
        return self._namespaces.get(name)

    def quotas(self) -> dict[str, KnownQuota]:
        """All quotas by key, with those that were just admitted."""
        return self._quotas | {key: quota for key, (_, quota) in self._fresh().items()}

    def quotas_by_name(self) -> Mapping[str, Quota]:
        """All quotas by name; of two with one name the first by key."""
        if self._admitted:
            self._fresh()
        if self._by_name is None:
            by_name: dict[str, Quota] = {}
            for _, known in sorted(self.quotas().items()):
                by_name.setdefault(known.quota.name, known.quota)
            self._by_name = by_name
        return self._by_name

    def home_of(self, name: str) -> str:
        """The namespace of a quota's object; "" where it is not known."""
        found = self.known_quota(name)
        return "" if found is None else found.key.partition("/")[0]

    def known_quota(self, name: str) -> KnownQuota | None:
        """The quota of a name."""
        for _, known in sorted(self.quotas().items()):
            if known.quota.name == name:
                return known
        return None

    def requested(self, name: str, but: str = "") -> Amounts:
        """What the pods of a quota request together, without the pod of the uid `but`."""
        quotas, now_s = self.quotas_by_name(), self._clock()
        for uid in [uid for uid, (until_s, _) in self._admitted_members.items() if until_s < now_s]:
            del self._admitted_members[uid]
        total: dict[str, int] = {}
        for (namespace, label), amounts in self._sums.items():
            if quota_of_pod(namespace, label, quotas) == name:
                _add(total, amounts.items(), 1)
        admitted = {uid: member for uid, (_, member) in self._admitted_members.items() if uid != but}
        for uid in {but, *admitted}:  # a change that was admitted counts instead of what is stored
            stored = self._members.get(uid)
            if stored is not None and quota_of_pod(stored.namespace, stored.label, quotas) == name:
                _add(total, stored.request, -1)
        for member in admitted.values():
            if quota_of_pod(member.namespace, member.label, quotas) == name:
                _add(total, member.request, 1)
        return Amounts.of(total)

    def _count(self, member: QuotaCountedPod | None, sign: int) -> None:
        if member is not None:
            _add(self._sums.setdefault((member.namespace, member.label), {}), member.request, sign)

    def _fresh(self) -> dict[str, tuple[float, KnownQuota]]:
        now_s = self._clock()
        for key in [key for key, (until_s, _) in self._admitted.items() if until_s < now_s]:
            del self._admitted[key]
            self._by_name = None
        return self._admitted


def _add(total: dict[str, int], amounts: Iterable[tuple[str, int]], sign: int) -> None:
    for resource, amount in amounts:
        total[resource] = total.get(resource, 0) + sign * amount
