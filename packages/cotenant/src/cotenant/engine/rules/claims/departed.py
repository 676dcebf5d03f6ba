"""Who uses a claim, and which claims nobody would use if some pods were gone.

The devices of a claim stay allocated for a while after its last user, until the controller of claims has seen that. In
a trial of evictions they have to be free at once: the gang that is tried gets them when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.engine.rules.claims.facts import ClaimFacts
from cotenant.engine.rules.claims.ledger import extended_uid
from cotenant.engine.rules.claims.pods import PodClaims


class DepartedUsers:
    """Pods that are gone in a trial. The mappings are the rule's: pods and users by number, claim and UID."""

    def __init__(
        self,
        facts: ClaimFacts,
        pods: Mapping[int, PodClaims],
        users: Mapping[str, set[int]],
        number_of: Mapping[str, int],
    ) -> None:
        self._facts, self._pods, self._users, self._number_of = facts, pods, users, number_of
        self._gone: set[int] = set()

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

    def begin(self) -> None:
        """Claims without users count as deallocated from now on."""
        ledger = self._facts.ledger
        for key in ledger.by_key.keys() - self._users.keys():
            self._set_aside(ledger.by_key[key].uid)

    def add(self, number: int) -> None:
        """One more pod is gone."""
        pod = self._pods.get(number)
        if pod is None:
            return
        self._gone.add(number)
        ledger = self._facts.ledger
        made = self._facts.made_for.get((pod.namespace, pod.needs.uid))
        named = (ledger.by_key.get(claim.key) for claim in pod.needs.claims)
        for claim in (*named, made):
            if claim is not None:
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
