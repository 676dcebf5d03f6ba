"""Keeps the quotas of ElasticQuotaProfiles: profiles, nodes and quotas in; writes out.

Upstream polls every ten seconds, overwrites a quota that another profile keeps, and loses what others set on it. Events
mark everything as due, `decide` returns the writes for quotas that lack something of what their profile says; a write
that the watch does not show within a while is issued again, ever more rarely. Of two profiles with one quota the first
by key keeps it. A profile that cannot be read changes nothing: its quota stays as it is. Nothing is deleted: a deleted
profile leaves its quota, as upstream.
Limits: all profiles are computed together, at most once a second.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from math import inf

from cotenant.engine.manager.instructions import LabelProfile, WriteQuota
from cotenant.model.groups.quota_profile import ProfileNode, QuotaProfile, StoredQuota
from cotenant.policy.quota.profile import ProfileQuota, quota_of, tree_id_of

SETTLE_S = 1.0  # events within this time are computed together
MAX_DOUBLINGS = 7


@dataclass(slots=True)
class _Sent:
    """A write, and how often it was issued."""

    what: object
    at_s: float
    tries: int = 1


class QuotaProfiles:
    """Events correct facts; `decide` returns instructions. Times are seconds of one steady clock."""

    def __init__(self, confirm_s: float = 30.0) -> None:
        self.refused: dict[str, str] = {}  # by profile: why it is not in force
        self.quotas: dict[str, ProfileQuota] = {}  # by profile: what its quota should have
        self._confirm_s = confirm_s
        self._profiles: dict[str, QuotaProfile] = {}
        self._stored: dict[str, StoredQuota] = {}
        self._nodes: dict[str, ProfileNode] = {}
        self._sent: dict[Hashable, _Sent] = {}
        self._due_s = inf

    # ---- events

    def profile_seen(self, profile: QuotaProfile, now_s: float) -> None:
        """A profile as it is now."""
        if self._profiles.get(profile.key) != profile:
            self._profiles[profile.key] = profile
            self._later(now_s + SETTLE_S)

    def profile_gone(self, key: str, now_s: float) -> None:
        """The profile was deleted; its quota stays."""
        if self._profiles.pop(key, None) is not None:
            self._later(now_s + SETTLE_S)

    def quota_seen(self, quota: StoredQuota, now_s: float) -> None:
        """A quota as it is now."""
        if self._stored.get(quota.key) != quota:
            self._stored[quota.key] = quota
            self._later(now_s + SETTLE_S)

    def quota_gone(self, key: str, now_s: float) -> None:
        """The quota was deleted: a profile makes it again."""
        if self._stored.pop(key, None) is not None:
            self._sent.pop(key, None)
            self._later(now_s + SETTLE_S)

    def node_seen(self, node: ProfileNode, now_s: float) -> None:
        """A node as it is now."""
        if self._nodes.get(node.name) != node:
            self._nodes[node.name] = node
            if self._profiles:
                self._later(now_s + SETTLE_S)

    def node_gone(self, name: str, now_s: float) -> None:
        """The node was deleted."""
        if self._nodes.pop(name, None) is not None:
            self._later(now_s + SETTLE_S)

    def leads_now(self, now_s: float) -> None:
        """This replica begins to lead: what an earlier term sent may never have been written."""
        self._sent.clear()
        self._later(now_s)

    def uid_of(self, key: str) -> str:
        """The UID of a profile; "" where it is not known."""
        profile = self._profiles.get(key)
        return profile.uid if profile is not None else ""

    # ---- decisions

    def next_s(self) -> float:
        """When `decide` has something to do; inf = not before the next event."""
        return self._due_s

    def decide(self, now_s: float) -> tuple[LabelProfile | WriteQuota, ...]:
        """What is to be written now."""
        if now_s < self._due_s:
            return ()
        self._due_s = inf
        found: list[LabelProfile | WriteQuota] = []
        self.refused, self.quotas = {}, {}
        keeper_of: dict[str, str] = {}  # quota -> profile
        for key, profile in sorted(self._profiles.items()):
            if profile.wrong:
                self.refused[key] = "; ".join(profile.wrong)
                continue
            first = keeper_of.setdefault(profile.quota_key, key)
            if first != key:
                self.refused[key] = f"quota {profile.quota_key} is kept by the profile {first}"
                continue
            if not profile.tree_id:
                label = LabelProfile(key, profile.uid, tree_id_of(key))
                found += self._once(("profile", key), label, now_s)
            wanted = self.quotas[key] = quota_of(profile, self._nodes.values())
            stored = self._stored.get(wanted.key)
            if wanted.stands(stored):
                self._sent.pop(wanted.key, None)
                continue
            write = WriteQuota(
                wanted.key, wanted.labels, wanted.annotations, wanted.minimum, wanted.maximum, creates=stored is None
            )
            found += self._once(wanted.key, write, now_s)
        return tuple(found)

    def _once(
        self, key: Hashable, write: LabelProfile | WriteQuota, now_s: float
    ) -> tuple[LabelProfile | WriteQuota, ...]:
        """The write, unless the same one was issued a short while ago."""
        sent = self._sent.get(key)
        tries = 1
        if sent is not None and sent.what == write:
            again_s = sent.at_s + self._confirm_s * 2 ** min(sent.tries - 1, MAX_DOUBLINGS)
            if now_s < again_s:
                self._later(again_s)
                return ()
            tries = sent.tries + 1
        self._sent[key] = _Sent(write, now_s, tries)
        self._later(now_s + self._confirm_s)
        return (write,)

    def _later(self, at_s: float) -> None:
        self._due_s = min(self._due_s, at_s)
