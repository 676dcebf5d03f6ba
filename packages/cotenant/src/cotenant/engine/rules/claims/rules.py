"""The rule of device claims: on which nodes a pod's claims can be satisfied, with which devices, and what is written
before the bind.

Claims that have an allocation pin the pod to where it can be used; the others are allocated together on the chosen row,
as kube-scheduler's DynamicResources plugin does, and written by the process before it binds the pod
(`Holdings.claims`). What is decided counts at once (ledger.py), so no device is given twice, and is given up exactly
when the pod gives its node up. All state follows from slices, classes, claims, and what pods hold.

Source: Kubernetes 1.36, kube-scheduler's DynamicResources plugin; KEP-4381.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from uuid import NAMESPACE_OID, uuid5

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.memento import Memento
from cotenant.engine.framework.node_rules import RuleResult
from cotenant.engine.rules.claims.departed import DepartedUsers
from cotenant.engine.rules.claims.extended import ExtendedResources
from cotenant.engine.rules.claims.facts import ClaimFacts
from cotenant.engine.rules.claims.ledger import Assumed, extended_uid
from cotenant.engine.rules.claims.pods import ClaimingPod, Resolved, resolve
from cotenant.engine.rules.claims.readiness import Readiness
from cotenant.engine.rules.claims.rows import RowsOfSelectors
from cotenant.engine.rules.claims.selecting import NoSelectors, Selectors
from cotenant.engine.rules.claims.verdicts import UNJUDGED, ClaimVerdictCache, ClaimVerdicts, VerdictFacts, Work
from cotenant.engine.rules.claims.victims import ClaimVacate, vacate_of
from cotenant.model.arrays import Int, Mask
from cotenant.model.claims.claim import ResourceClaim
from cotenant.model.claims.needs import ClaimHolding
from cotenant.model.claims.requests import ClaimSpec
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.labels import NO_LABELS
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.policy.claims.allocator import DeviceSearch
from cotenant.policy.claims.extended import ExtendedClaim
from cotenant.policy.claims.results import allocation_of
from cotenant.policy.placement.preference import PreferencePart

PLUGIN = "DynamicResources"
_WEIGHT = 2.0  # of the preference for earlier alternatives, as in kube-scheduler


class ClaimRules:
    """Implements `NodeRules`, `Vacating` and `Outlasting` of engine/framework/node_rules.py."""

    name = PLUGIN

    def __init__(self, selectors: Selectors | None = None, search: type[DeviceSearch] = DeviceSearch) -> None:
        self._search = search
        self.facts = ClaimFacts(selectors or NoSelectors())
        self.extended = ExtendedResources()
        self.readiness = Readiness()
        self.verdicts = ClaimVerdictCache()
        self.pods: dict[int, ClaimingPod] = {}
        self.number_of: dict[str, int] = {}  # by the pod's UID
        self.users: dict[str, set[int]] = {}  # claim, by namespace/name -> pods that need it
        self._departed = DepartedUsers(self.facts, self.pods, self.users, self.number_of)
        self._keys: dict[Hashable, int] = {}
        self._rows = RowsOfSelectors()
        self.facts.changed = self._classes_changed

    # ---- facts and copies

    def capture(self) -> Callable[[], ClaimRules]:
        """A maker of rules with the same slices, classes and claims, and no pods; it reads nothing of these later."""
        selectors, search, fill = self.facts.selectors, self._search, self.facts.capture()

        def make() -> ClaimRules:
            made = ClaimRules(selectors, search)
            fill(made.facts)
            return made

        return make

    def snapshot(self) -> Callable[[], None]:
        """See `Plugin`: which allocations are assumed, and for whom."""
        memento = Memento((*self.pods.values(), self.pods, self.users, self.number_of, self._departed.idle))
        ledger = self.facts.ledger
        assumed = {uid: Assumed(found.allocation, set(found.pods)) for uid, found in ledger.assumed.items()}

        def put_back() -> None:
            memento.restore()
            ledger.put_back(assumed)

        return put_back

    def _classes_changed(self) -> None:
        self.verdicts.clear()
        self.extended.classes_changed(self.facts.classes)

    @property
    def judging(self) -> VerdictFacts:
        """What verdicts are made of."""
        facts = self.facts
        return VerdictFacts(facts.inventories, facts.ledger, facts.selectors, facts.classes, self._search)

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Start over with this encoder's rows and no pods; facts stay."""
        self._rows.attach(encoder)
        self.pods.clear()
        self.number_of.clear()
        self.users.clear()
        self.facts.ledger.forget_pods()
        self._departed.start_over()
        self.facts.attach(encoder)
        self.verdicts.clear()
        self.extended.attach(encoder)

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Whether the pod needs claims, or requests resources that classes may stand for."""
        needs = demands.claims
        if needs is None:
            return False
        self.pods[number] = ClaimingPod(pod.key, pod.namespace, needs, holds.claims)
        self.number_of[needs.uid] = number
        for named in needs.claims:
            self.users.setdefault(named.key, set()).add(number)
        self._departed.pod_changed(number)
        if needs.extended:
            self.extended.asked(needs, self.facts.classes)
        return True

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """What pods hold of claims is not in their annotations."""

    def rules(self, number: int) -> Iterator[RuleResult]:
        """One rule for each reason of refusal."""
        resolved = self.resolved(number)
        size = self.facts.inventories.size
        if resolved.obstacle:
            yield RuleResult(PLUGIN, resolved.obstacle, np.zeros(size, dtype=np.bool_), False)
            return
        for claim, allocation in resolved.allocated:
            if allocation.nodes is not None:
                yield RuleResult(PLUGIN, f"node(s) on which ResourceClaim {claim.key} is not available",
                           self._rows.of(allocation.nodes), False)  # fmt: skip
            why = self.readiness.failure(claim)
            if why:
                yield RuleResult(PLUGIN, why, np.zeros(size, dtype=np.bool_), False)
        work = Work()
        for rows, specs, _ in self.asks(number, resolved):
            if specs:
                yield from self._of_ask(rows, specs, work)

    def _of_ask(self, rows: Mask | None, specs: tuple[ClaimSpec, ...], work: Work) -> Iterator[RuleResult]:
        judging = self.judging
        found = self.verdicts.of(specs, judging, work)
        by_row = self.facts.inventories.by_row()
        if not found.is_complete:
            left = np.zeros(len(by_row), dtype=np.bool_) if rows is None else ~rows
            yield RuleResult(PLUGIN, UNJUDGED, left, False)
            return
        codes = found.codes[by_row]
        if rows is not None:
            codes = np.where(rows, codes, 0)
        present = np.bincount(codes, minlength=len(found.reasons))
        for code, (reason, yields) in enumerate(found.reasons):
            if code and present[code]:
                yield RuleResult(PLUGIN, reason, codes != code, yields, partial(found.figures, judging, code))

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """More for nodes that satisfy earlier alternatives of prioritised lists."""
        values = np.zeros(len(rows))
        for there, specs, _ in self.asks(number, self.resolved(number)):
            if any(request.is_list for spec in specs for request in spec.requests):
                found = self.verdicts.of(specs, self.judging, Work())
                worths = found.worths[self.facts.inventories.by_row()[rows]]
                values += worths if there is None else np.where(there[rows], worths, 0.0)
        highest = float(values.max()) if len(values) else 0.0
        return (PreferencePart("claims", _WEIGHT * 100.0 / highest * values),) if highest > 0 else ()

    def allocate(self, number: int, row: int) -> None:
        """Allocate the pod's claims on a row that passed. Raises `Permanent` where nothing is available after all."""
        pod = self.pods[number]
        pod.given = self._choose(number, row)
        pod.node = pod.given_on = self.facts.inventories.name_of(row)
        pod.is_guess = False
        self._assume(number, pod)

    def assign(self, number: int, row: int) -> None:
        """Assign the pod with what it was given, or assume what it would be given."""
        pod = self.pods[number]
        pod.node, pod.is_guess = self.facts.inventories.name_of(row), False
        is_free = self.facts.ledger.is_free_for
        stays = pod.given and pod.given_on in ("", pod.node)
        if not (stays and all(is_free(uid, allocation) for uid, allocation in pod.allocations())):
            pod.given, pod.given_on = (), ""
            resolved = self.resolved(number)
            if resolved.obstacle:
                return
            try:
                pod.given, pod.is_guess, pod.given_on = self._choose(number, row), True, pod.node
            except Permanent:
                return  # another holds them: its claim is observed later, or it waits for victims
        self._assume(number, pod)

    def unassign(self, number: int) -> None:
        """Give up what is not observed."""
        pod = self.pods[number]
        pod.node = ""
        if pod.is_guess:
            pod.given, pod.is_guess = (), False
        for uid in pod.relies_on:
            self.facts.ledger.release(uid, number)
        pod.relies_on.clear()

    def remove_pod(self, number: int) -> None:
        """The pod has left the cluster."""
        pod = self.pods[number]
        if pod.node:
            self.unassign(number)
        if self.number_of.get(pod.needs.uid) == number:
            del self.number_of[pod.needs.uid]
        for named in pod.needs.claims:
            users = self.users[named.key]
            users.discard(number)
            if not users:
                del self.users[named.key]
        self._departed.pod_changed(number)
        del self.pods[number]

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """`holds` with what is to be written into the pod's claims."""
        pod = self.pods[number]
        return replace(holds, claims=pod.given) if pod.given and not pod.is_guess else holds

    def validate(self) -> None:
        """Check the ledger, and that assumed allocations belong to pods that have a node. Raises `Permanent`."""
        self.facts.ledger.validate()
        self._departed.validate()
        for uid, assumed in self.facts.ledger.assumed.items():
            for number in assumed.pods:
                pod = self.pods.get(number)
                if pod is None or not pod.node or uid not in pod.relies_on:
                    raise Permanent(f"the allocation of claim {uid} is assumed for a pod without a node")

    def vacate(self, number: int, row: int, nominated: tuple[int, ...] = ()) -> ClaimVacate | None:
        """Whether the pod's claims can be allocated on the row without some of its pods, beside nominated ones."""
        verdicts = self._verdicts_on(number, row)
        if verdicts is None:
            return None
        others = (self._verdicts_on(other, row) for other in nominated if other in self.pods and other != number)
        return vacate_of(
            self.judging,
            self.facts.ledger,
            self.facts.inventories.at(row),
            verdicts,
            self._departed.staying_users_of,
            tuple(found for found in others if found is not None),
        )

    def trial_begins(self) -> None:
        """See `Outlasting`."""
        self._departed.begin()

    def departs(self, number: int) -> None:
        """See `Outlasting`."""
        self._departed.add(number)

    def trial_ends(self) -> None:
        """See `Outlasting`."""
        self._departed.end()

    # ---- one pod

    def resolved(self, number: int) -> Resolved:
        """What follows from the pod's claims as they are now."""
        pod = self.pods[number]
        found = resolve(
            pod, number, self.facts.ledger, self.facts.classes, self.facts.namespaces.get(pod.namespace, NO_LABELS)
        )
        made = self.facts.made_for.get((pod.namespace, pod.needs.uid)) if pod.needs.extended else None
        if made is None or found.obstacle:
            return found
        if made.is_ending:
            return Resolved(f"ResourceClaim {made.key} of an earlier attempt is being deleted")
        if made.allocation is not None:
            return replace(found, allocated=(*found.allocated, (made, made.allocation)))
        if all(
            claim is None or _requests(claim.spec) != _requests(made.spec)
            for _, claim in self.extended.variants(pod.needs)
        ):
            return Resolved(f"ResourceClaim {made.key} of an earlier attempt is for other resources")
        return found

    def asks(
        self, number: int, resolved: Resolved
    ) -> list[tuple[Mask | None, tuple[ClaimSpec, ...], ExtendedClaim | None]]:
        """What must be allocated, by rows (None = all)."""
        pod = self.pods[number]
        needs, made = pod.needs, self.facts.made_for.get((pod.namespace, pod.needs.uid))
        if not needs.extended or (made is not None and made.allocation is not None):
            return [(None, resolved.specs, None)]
        return [
            (rows, resolved.specs if claim is None else (*resolved.specs, claim.spec), claim)
            for rows, claim in self.extended.variants(needs)
            if made is None or claim is None or _requests(claim.spec) == _requests(made.spec)
        ]

    def key_of(self, number: int) -> Hashable:
        """Equal for pods whose claims are satisfied alike."""
        resolved = self.resolved(number)
        key = resolved.specs, tuple(claim.uid for claim, _ in resolved.allocated)
        if len(self._keys) > 100_000:
            self._keys.clear()
        return self._keys.setdefault(key, len(self._keys))

    def _verdicts_on(self, number: int, row: int) -> ClaimVerdicts | None:
        resolved = self.resolved(number)
        if resolved.obstacle:
            return None
        for rows, specs, _ in self.asks(number, resolved):
            if specs and (rows is None or rows[row]):
                return self.verdicts.of(specs, self.judging, Work())
        return None

    def _choose(self, number: int, row: int) -> tuple[ClaimHolding, ...]:
        """What is written into the pod's claims on a row. Raises `Permanent`."""
        pod, resolved, inventories = self.pods[number], self.resolved(number), self.facts.inventories
        node = inventories.name_of(row)
        if resolved.obstacle:
            raise Permanent(f"pod {pod.key} was placed, but {resolved.obstacle}")
        held = {
            claim.key: ClaimHolding(
                claim.key,
                claim.uid,
                None if claim.allocation is not None else allocation,
                group=pod.needs.group_of(claim.key),
            )
            for claim, allocation in resolved.allocated
        }
        for rows, specs, extended in self.asks(number, resolved):
            if not specs or (rows is not None and not rows[row]):
                continue
            verdicts = self.verdicts.of(specs, self.judging, Work())
            found = verdicts.choice(self.judging, int(inventories.by_row()[row]))
            if not isinstance(found, tuple):
                raise Permanent(f"pod {pod.key} was placed on {node}, but {found.reason} ({found.figures})")
            made: list[tuple[str, str]] = [(claim.key, claim.uid) for claim in resolved.to_allocate]
            before = self.facts.made_for.get((pod.namespace, pod.needs.uid)) if extended is not None else None
            if before is not None:
                made.append((before.key, before.uid))
            elif extended is not None:
                made.append(("", extended_uid(pod.needs.uid)))
            for (key, uid), spec, picks in zip(made, specs, found, strict=True):
                allocation = allocation_of(
                    spec,
                    picks,
                    inventories.at(row).pools,
                    node,
                    self.facts.classes,
                    partial(_share, uid, pod.needs.uid),
                )
                if key:
                    held[key] = ClaimHolding(key, uid, allocation, group=pod.needs.group_of(key))
                elif extended is not None:
                    held[""] = ClaimHolding("", "", allocation, _requests(spec), extended.mappings)
        made_before = self.facts.made_for.get((pod.namespace, pod.needs.uid)) if pod.needs.extended else None
        if made_before is not None and made_before.key in held:
            held[made_before.key] = replace(held[made_before.key], mappings=self._mappings(pod, made_before))
        return tuple(held.values())

    def _mappings(self, pod: ClaimingPod, made: ResourceClaim) -> tuple[tuple[str, str, str], ...]:
        """Which container has which request of a claim that an earlier attempt has made."""
        for _, claim in self.extended.variants(pod.needs):
            if claim is not None and _requests(claim.spec) == _requests(made.spec):
                return claim.mappings
        return ()

    def _assume(self, number: int, pod: ClaimingPod) -> None:
        for uid, allocation in pod.allocations():
            self.facts.ledger.assume(uid, allocation, number)
            if uid in self.facts.ledger.assumed:
                pod.relies_on.add(uid)


def _share(uid: str, pod_uid: str, position: int) -> str:
    """The name of a share: the same whenever the decision is made again."""
    return str(uuid5(NAMESPACE_OID, f"{uid} {pod_uid} {position}"))


def _requests(spec: ClaimSpec) -> tuple[tuple[str, str, int], ...]:
    return tuple(
        (request.name, exact.device_class, exact.count) for request in spec.requests for exact in request.alternatives
    )
