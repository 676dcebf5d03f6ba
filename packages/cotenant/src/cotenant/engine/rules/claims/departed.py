"""Who uses a claim, and which claims nobody would use if some pods were gone.

The devices of a claim stay allocated for a while after its last user, until the controller of claims has seen that. In
a trial of evictions they have to be free at once: the gang that is tried gets them when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.rules.claims.facts import ClaimFacts
from cotenant.engine.rules.claims.ledger import extended_uid
from cotenant.engine.rules.claims.pods import ClaimingPod
from cotenant.model.claims.claim import ResourceClaim
from cotenant.model.errors import Permanent


class DepartedUsers:
    """Pods that are gone in a trial. The mappings are the rule's: pods and users by number, claim and UID."""

    def __init__(
        self,
        facts: ClaimFacts,
        pods: Mapping[int, ClaimingPod],
        users: Mapping[str, set[int]],
        number_of: Mapping[str, int],
    ) -> None:
        self._facts, self._pods, self._users, self._number_of = facts, pods, users, number_of
        self._gone: set[int] = set()
        self.idle: set[str] = set()  # UIDs of claims with devices that no known pod needs
        facts.ledger.recounted = self.look_again

    def users_of(self, uid: str) -> frozenset[int] | None:
        """The pods that use a claim; None where one of them may not be known."""
        found: set[int] = set()
        ledger = self._facts.ledger
        claim, assumed = ledger.by_uid.get(uid), ledger.assumed.get(uid)
        for consumer in claim.reserved_for if claim is not None else ():
            number = self._number_of.get(consumer)
            if number is not None:
                found.add(number)
            elif consumer not in self._facts.ended:
                return None
        return frozenset(found | (assumed.pods if assumed is not None else set()))

    def staying_users_of(self, uid: str) -> frozenset[int] | None:
        """The same, without those that are gone already."""
        users = self.users_of(uid)
        return users - self._gone if users is not None else None

    def start_over(self) -> None:
        """Other pods are known, or none."""
        for uid in self._facts.ledger.by_uid:
            self.look_again(uid)

    def pod_changed(self, number: int) -> None:
        """A pod has come, or is about to go: its claims may be needed now, or no longer."""
        for claim in self._claims_of(self._pods[number]):
            self.look_again(claim.uid)

    def look_again(self, uid: str) -> None:
        """Whether any pod needs a claim."""
        ledger = self._facts.ledger
        claim = ledger.by_uid.get(uid)
        if claim is None or not ledger.has_devices(uid) or self._is_needed(claim):
            self.idle.discard(uid)
        else:
            self.idle.add(uid)

    def validate(self) -> None:
        """Check the claims that nobody needs. Raises `Permanent`."""
        ledger = self._facts.ledger
        known = (claim for claim in ledger.by_key.values() if ledger.has_devices(claim.uid))
        if self.idle != {claim.uid for claim in known if not self._is_needed(claim)}:
            raise Permanent("claims that no pod needs differ from those that are noted")

    def _is_needed(self, claim: ResourceClaim) -> bool:
        return claim.key in self._users or (claim.is_for_extended and claim.owner_uid in self._number_of)

    def _claims_of(self, pod: ClaimingPod) -> list[ResourceClaim]:
        by_key = self._facts.ledger.by_key
        made = self._facts.made_for.get((pod.namespace, pod.needs.uid))
        named = (by_key.get(claim.key) for claim in pod.needs.claims)
        return [claim for claim in (*named, made) if claim is not None]

    def begin(self) -> None:
        """Claims without users count as deallocated from now on."""
        for uid in sorted(self.idle):
            self._set_aside(uid)

    def add(self, number: int) -> None:
        """One more pod is gone."""
        pod = self._pods.get(number)
        if pod is None:
            return
        self._gone.add(number)
        for claim in self._claims_of(pod):
            self._set_aside(claim.uid)
        self._set_aside(extended_uid(pod.needs.uid))

    def end(self) -> None:
        """The trial is over."""
        self._gone.clear()
        self._facts.ledger.put_all_back()

    def _set_aside(self, uid: str) -> None:
        if not self._facts.ledger.has_devices(uid):
            return
        users = self.users_of(uid)
        if users is not None and users <= self._gone:
            self._facts.ledger.set_aside(uid)
