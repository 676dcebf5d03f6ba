"""Which rows the rules about other pods, host ports and volumes leave to a pod, and which it would rather have, as the cluster fills.

Problem: these rules ask who else sits in a zone, so they are not row-local, and every placement changes their answer. Choice: residents are
counted per node for every rule that asks (engine/state/pod_counts.py); a pod's rows are narrowed by indexed sums over domains before the compiled
filters and scores look at what remains, and soft terms are added to the profile's score over the rows that pass. Pods without such rules, and
that no resident's rule is about, are placed in one compiled run as before. Residents that somebody else placed are told of in the
same way: `watch`, then `seat`. Limits: a pod with rules costs a few NumPy passes over all nodes. The rules themselves:
policy/placement/topology and policy/placement/preference.py; volumes: engine/state/volumes.py; queues: engine/cycle/runs.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import NodeRules, Repeating, Rule, introduce
from cotenant.engine.state.pod_counts import Count, Kind, Owns, PodCounts, Role, Selected
from cotenant.engine.state.pod_terms import PodRules, read_rules
from cotenant.engine.state.topology import Regions
from cotenant.engine.state.volumes import REASON_EXCLUSIVE, VolumeChoice, Volumes
from cotenant.model.arrays import Float, Int, Mask
from cotenant.model.cluster.affinity import SpreadConstraint
from cotenant.model.cluster.demands import NO_DEMANDS, NO_HOLDINGS, Demands, Holdings
from cotenant.model.cluster.observed import NamespaceFacts, VolumeNeed
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.model.resources import Amounts
from cotenant.policy.placement import preference
from cotenant.policy.placement.filters import node_affinity, taints
from cotenant.policy.placement.topology import pod_affinity as affinity_pods
from cotenant.policy.placement.topology import pod_antiaffinity as antiaffinity_pods
from cotenant.policy.placement.topology import spread

EVERYWHERE: Mask = np.empty(0, dtype=np.bool_)  # what the compiled placement takes for "no narrowing"
REASON_PORTS = "node(s) didn't have free ports for the requested pod ports"


class Narrowing:
    """Counts residents for the rules of the pods it was told of."""

    def __init__(self, encoder: Encoder, node_rules: tuple[NodeRules, ...] = ()) -> None:
        self.encoder = encoder
        self.node_rules = node_rules
        for each in node_rules:
            each.attach(encoder)
        introduce(node_rules)
        self._repeating = {each.name: each for each in node_rules if isinstance(each, Repeating)}
        self._needing: dict[int, tuple[NodeRules, ...]] = {}  # number -> who has something for it
        self._asks: dict[int, tuple[Demands, Amounts]] = {}  # of these pods
        self.pod_counts = PodCounts()
        self.regions = Regions(encoder)
        self.volumes = Volumes(self.regions)
        self._pods: dict[int, tuple[Kind, int]] = {}  # number -> kind, shape's row
        self._rules: dict[Kind, PodRules] = {}
        self._seats: dict[int, int] = {}  # number -> node's row
        self._stopping: set[int] = set()
        self._kinds: Int = np.full(64, -1, dtype=np.int64)  # by number: the kind's index
        self._expected: tuple[tuple[int, int], ...] = ()
        self._supposed: tuple[int, int, tuple[NodeRules, ...]] | None = (
            None  # number, the guest that stands for it, who has something for that
        )

    # ---- what happened

    def watch(
        self,
        number: int,
        pod: Pod,
        shape: int,
        volumes: tuple[VolumeNeed, ...] = (),
        demands: Demands = NO_DEMANDS,
        holds: Holdings = NO_HOLDINGS,
    ) -> None:
        """Tell of a pod before it is placed; number and shape are the encoder's (`Encoder.add_pod`)."""
        if number in self._pods:
            raise Permanent(f"pod {number} is watched already")
        self._set(number, self.pod_counts.kind(pod), shape)
        if volumes:
            self.volumes.set(number, volumes)
        needing = tuple(each for each in self.node_rules if each.watch(number, pod, demands, holds))
        if needing:
            self._needing[number] = needing
            self._asks[number] = (demands, pod.limits)

    def update_volumes(self, number: int, volumes: tuple[VolumeNeed, ...]) -> None:
        """A pod's claims changed: one was bound, or another volume appeared."""
        self.volumes.set(number, volumes)

    def relabel(self, number: int, pod: Pod) -> None:
        """A watched pod's labels changed; it keeps its number, shape and seat."""
        before, shape = self._pods[number]
        row = self._seats.get(number)
        after = self.pod_counts.kind(pod)
        if row is not None:
            self.pod_counts.assign(before, row, -1, number in self._stopping)
            self.pod_counts.assign(after, row, 1, number in self._stopping)
        self._set(number, after, shape)
        self._release(before)

    def held(self, number: int, holds: Holdings) -> None:
        """What a watched pod was given was told anew."""
        for each in self._needing.get(number, ()):
            each.held(number, holds)

    def forget(self, number: int) -> None:
        """A pod is gone for good."""
        if number in self._seats:
            self.leave(number)
        for each in self._needing.pop(number, ()):
            each.forget(number)
        self._asks.pop(number, None)
        self._stopping.discard(number)
        self.volumes.forget(number)
        self._release(self._pods.pop(number)[0])

    def assign(self, number: int, row: int) -> None:
        """A pod sits there, by somebody's word. Raises `Permanent` if it already sits somewhere."""
        self._assign(number, row)
        for each in self._needing.get(number, ()):
            each.assign(number, row)

    def choose(self, number: int, row: int) -> None:
        """A pod was placed, on a row that its rules left: what it needs there is chosen."""
        self._assign(number, row)
        for each in self._needing.get(number, ()):
            each.choose(number, row)

    def choose_all(self, numbers: list[int], rows: list[int]) -> None:
        """As `choose`, one after the other."""
        for kind, those in self._plain(numbers, rows, self.choose).items():
            if not self._seats.keys().isdisjoint(those):
                raise Permanent(f"of pods {list(those)} some already sit on a node")
            self.pod_counts.seat_all(kind, list(those.values()), 1)
            self._seats.update(those)

    def leave_all(self, numbers: list[int]) -> None:
        """As `leave`, one after the other."""
        rows = [self._seats[number] for number in numbers]
        for kind, those in self._plain(numbers, rows, lambda number, row: self.leave(number)).items():
            self.pod_counts.seat_all(kind, list(map(self._seats.pop, those)), -1)

    def _plain(
        self, numbers: list[int], rows: list[int], singly: Callable[[int, int], None]
    ) -> dict[Kind, dict[int, int]]:
        """Those of which only their kind's pod_counts needs to know, by kind; `singly` is called for the others."""
        apart = {*numbers} & (self._needing.keys() | self._stopping) | self.volumes.known(numbers)
        found: dict[Kind, dict[int, int]] = {}
        for number, row in zip(numbers, rows, strict=True):
            if number in apart:
                singly(number, row)
            else:
                found.setdefault(self._pods[number][0], {})[number] = row
        return found

    def holdings(self, number: int) -> Holdings:
        """What a seated pod was given of its node."""
        holds = NO_HOLDINGS
        for each in self._needing.get(number, ()):
            holds = each.holdings(number, holds)
        return holds

    def _assign(self, number: int, row: int) -> None:
        if number in self._seats:
            raise Permanent(f"pod {number} already sits on node {self._seats[number]}")
        self._seats[number] = row
        self.pod_counts.assign(self._pods[number][0], row, 1, number in self._stopping)
        if number in self.volumes:
            self.volumes.assign(number, row)

    def leave(self, number: int) -> None:
        """A pod left its node but may come back."""
        self.pod_counts.assign(self._pods[number][0], self._seats.pop(number), -1, number in self._stopping)
        self.volumes.leave(number)
        for each in self._needing.get(number, ()):
            each.leave(number)

    def stop(self, number: int) -> None:
        """A pod began to terminate: spread does not count it any more, all else does until it leaves."""
        if number in self._stopping:
            return
        self._stopping.add(number)
        if number in self._seats:
            self.pod_counts.stop(self._pods[number][0], self._seats[number])

    def set_namespace(self, facts: NamespaceFacts) -> None:
        """A namespace's labels now; without labels for one that is gone."""
        self.pod_counts.set_namespace(facts.name, facts.labels)

    # ---- judgement

    def allowed(self, number: int) -> Mask:
        """`bool[N]`: rows that the rules leave to the pod; `EVERYWHERE` (empty) where no rule is about it."""
        answer = EVERYWHERE
        for rule in self.rules(number):
            answer = rule.left if len(answer) == 0 else answer & rule.left
        return answer

    def expect(self, nominated: tuple[tuple[int, int], ...]) -> None:
        """From now on pods are placed (engine/cycle/runs.py) as if these (number, row), which hold a nomination, were there already."""
        self._expected = nominated

    @property
    def is_expecting(self) -> bool:
        """Whether anybody holds a nomination."""
        return bool(self._expected)

    def allowed_now(self, number: int) -> Mask:
        """As `allowed_beside`, of those that are expected."""
        return self.allowed_beside(number, self._expected)

    @contextmanager
    def beside(self, nominated: tuple[tuple[int, int], ...], number: int = -1) -> Iterator[None]:
        """Within, pods that hold a nomination count as if they sat on their rows; `number` itself does not."""
        guests = [(pod, row) for pod, row in nominated if pod != number and pod not in self._seats]
        for pod, row in guests:
            self.assign(pod, row)
        try:
            yield
        finally:
            for pod, _ in guests:
                self.leave(pod)

    def allowed_beside(self, number: int, nominated: tuple[tuple[int, int], ...]) -> Mask:
        """As `allowed`, also if the `nominated` pods (number, row) were there already.

        kube-scheduler's two passes: rows must pass with them, and without them, since they may yet go elsewhere. Stricter in one point:
        they count in their whole domain, not only on their own node.
        """
        without = self.allowed(number)
        if not nominated:
            return without
        with self.beside(nominated, number):
            beside = self.allowed(number)
        if len(without) == 0 or len(beside) == 0:
            return beside if len(without) == 0 else without
        return beside & without

    @contextmanager
    def without(self, number: int) -> Iterator[None]:
        """Within, a seated pod counts nowhere, for a question about it; its claims keep what they hold. Afterwards everything is as it was."""
        row = self._seats.get(number)
        if row is None:
            yield
            return
        kind, keepers, stopping = self._pods[number][0], self._needing.get(number, ()), number in self._stopping
        self.pod_counts.assign(kind, row, -1, stopping)
        for each in keepers:
            each.leave(number)
        try:
            yield
        finally:
            for each in keepers:
                each.assign(number, row)
            self.pod_counts.assign(kind, row, 1, stopping)

    @contextmanager
    def supposing(self, number: int, pod: Pod, demands: Demands) -> Iterator[None]:
        """Within, keepers are asked about the pod as if it were `pod`, a pod of its kind; nothing of that is kept."""
        guest = self.encoder.pod_rows  # beyond every number that a pod has
        needing: list[NodeRules] = []
        try:
            needing.extend(each for each in self.node_rules if each.watch(guest, pod, demands, NO_HOLDINGS))
            self._supposed = number, guest, tuple(needing)
            yield
        finally:
            self._supposed = None
            for each in needing:
                each.forget(guest)

    def choices(self, number: int, row: int) -> tuple[VolumeChoice, ...]:
        """Which volume each claim that is not bound yet takes on a row; what must be bound before the pod is."""
        return self.volumes.choices(number, row)

    def is_free(self, numbers: list[int]) -> bool:
        """Whether nothing here narrows or prefers anything for any of these pods, as for most pods."""
        if self._expected or not self._needing.keys().isdisjoint(numbers) or self.volumes.known(numbers):
            return False
        kinds = {self._pods[number] for number in numbers}
        return not any(self._kind_has_rules(kind) or self._kind_has_wishes(kind, k) for kind, k in kinds)

    def is_narrowed(self, number: int) -> bool:
        """Whether some rule may forbid the pod a node."""
        return number in self._needing or self.has_rules(number)

    def has_rules(self, number: int) -> bool:
        """Whether a rule on other pods, its ports or its claims may forbid the pod a node."""
        return number in self.volumes or self._kind_has_rules(self._pods[number][0])

    def _kind_has_rules(self, kind: Kind) -> bool:
        if self.rules_of(kind).narrows:
            return True
        return any(count.total and _role(count) is Role.FORBIDS for count in self.pod_counts.owners_about(kind))

    def prefers(self, number: int) -> bool:
        """Whether the pod, or a resident's wish about it, makes one node better than another beside the profile's score."""
        return number in self._needing or self.has_wishes(number)

    def has_wishes(self, number: int) -> bool:
        """Whether a soft term of its own or of a resident does."""
        return self._kind_has_wishes(*self._pods[number])

    def _kind_has_wishes(self, kind: Kind, k: int) -> bool:
        if self.rules_of(kind).prefers or self.encoder.has_preferences(k):
            return True
        return any(count.total and _role(count) is not Role.FORBIDS for count in self.pod_counts.owners_about(kind))

    def repeating(self, number: int) -> tuple[Repeating, ...] | None:
        """The keepers that have something for the pod, if all of them can speak for runs of pods; None otherwise."""
        keepers = [self._repeating.get(each.name) for each in self._needing.get(number, ())]
        return None if None in keepers else tuple(each for each in keepers if each is not None)

    def rules_of(self, kind: Kind) -> PodRules:
        """The kind's own rules with their counts."""
        rules = self._rules.get(kind)
        if rules is None:
            rules = self._rules[kind] = read_rules(self.pod_counts, kind.pod)
        return rules

    def needed_by(self, number: int) -> tuple[NodeRules, ...]:
        """The keepers that have something for a watched pod."""
        return self._needing.get(number, ())

    def asks_of(self, number: int) -> tuple[Demands, Amounts] | None:
        """What the keepers of nodes' things may judge it by beside its kind and shape; None where none has anything for it."""
        return self._asks.get(number)

    def is_remembered(self, number: int) -> bool:
        """Whether a watched pod's kind, shape and asks say all of how nodes judge it, so that one answer speaks for all that are equal in these."""
        return all(each.name in self._repeating for each in self._needing.get(number, ()))

    def kind_of(self, number: int) -> Kind:
        """The kind of a watched pod."""
        return self._pods[number][0]

    def shape_of(self, number: int) -> int:
        """The shape's row of a watched pod."""
        return self._pods[number][1]

    def row_of(self, number: int) -> int:
        """Where a pod sits, -1 = nowhere."""
        return self._seats.get(number, -1)

    def kinds_of(self, numbers: Int) -> Int:
        """The indexes of watched pods' kinds (`PodCounts.at`)."""
        return self._kinds[numbers]

    def is_stopping(self, numbers: Int) -> Mask:
        """Which of these pods terminate."""
        return np.isin(numbers, list(self._stopping))

    def rules(self, number: int) -> Iterator[Rule]:
        """Every rule that is about the pod, in kube-scheduler's order of plugins."""
        kind, k = self._pods[number]
        rules = self.rules_of(kind)
        size = self.regions.size()
        if rules.pinned is not None:
            yield Rule("NodeAffinity", node_affinity.REASON, self.regions.only(rules.pinned), False)
        for count in rules.ports:
            if count.total:
                yield Rule("NodePorts", REASON_PORTS, count.rows(size) == 0, True)
        if number in self.volumes:
            if any(self.volumes.users_elsewhere(number)):
                yield Rule("VolumeRestrictions", REASON_EXCLUSIVE, np.zeros(size, dtype=np.bool_), True)
            for (plugin, reason), left in self.volumes.row_filters(number):
                yield Rule(plugin, reason, left, False)
        every = np.arange(size)
        for rule, _ in self.spread_rules(k, kind, rules.spread):
            yield Rule("PodTopologySpread", spread.REASON_NO_KEY, spread.has_key(rule, every), False)
            yield Rule("PodTopologySpread", spread.REASON, spread.mask(rule, every), True)
        if rules.affinity is not None:
            domains = [self.regions.domains(key) for key in rules.affinity_keys]
            itself = self.selects_itself(kind)
            left = affinity_pods.mask(domains, rules.affinity.rows(size), itself)
            yield Rule("InterPodAffinity", affinity_pods.REASON, left, False)
        for key, count in rules.anti:
            if count.total:
                anti = antiaffinity_pods.count_rule(self.regions.domains(key), count.rows(size))
                yield Rule("InterPodAffinity", antiaffinity_pods.REASON, antiaffinity_pods.mask(anti, every), True)
        for count in self.pod_counts.owners_about(kind):
            if count.total and isinstance(count.question, Owns) and count.question.role is Role.FORBIDS:
                over = self.regions.domains(count.question.term.topology_key)
                anti = antiaffinity_pods.count_rule(over, count.rows(size))
                left = antiaffinity_pods.mask(anti, every)
                yield Rule("InterPodAffinity", antiaffinity_pods.REASON_RESIDENTS, left, True)
        for each, known_as in self._keepers(number):
            yield from each.rules(known_as)

    def _keepers(self, number: int) -> Iterator[tuple[NodeRules, int]]:
        """Who has something for the pod, and by which number they know it."""
        if self._supposed is not None and self._supposed[0] == number:
            yield from ((each, self._supposed[1]) for each in self._supposed[2])
        else:
            yield from ((each, number) for each in self._needing.get(number, ()))

    def selects_itself(self, kind: Kind) -> bool:
        """Whether a kind's required affinity terms all select pods of the kind, so that one may start the group."""
        count = self.rules_of(kind).affinity
        return (
            count is not None
            and isinstance(count.question, Selected)
            and self.pod_counts.selects_all(count.question, kind.pod)
        )

    def spread_rules(
        self, k: int, kind: Kind, constraints: tuple[tuple[SpreadConstraint, Count], ...]
    ) -> Iterator[tuple[spread.SpreadRule, Mask]]:
        """Constraints, counted over the rows that count for each; and those rows."""
        if not constraints:
            return
        nodes, shapes = self.encoder.nodes(), self.encoder.shapes()
        size = len(nodes.ready)
        every = np.arange(size)
        fits = node_affinity.mask(nodes, shapes, k, every)
        if kind.pod.pinned is not None:
            fits &= self.regions.only(kind.pod.pinned)
        tolerated = taints.mask(nodes, shapes, k, every)
        domains = [self.regions.domains(constraint.topology_key) for constraint, _ in constraints]
        for (constraint, count), over in zip(constraints, domains, strict=True):
            eligible = spread.eligible_nodes(constraint, domains, fits, tolerated)
            itself = constraint.selects(kind.pod.labels)
            yield spread.count_rule(constraint, over, count.rows(size), eligible, itself), eligible

    # ---- wishes

    def liking(self, number: int, rows: Int) -> Float:
        """What the pod's soft terms add to the score of these rows, all of which must be rows that pass."""
        return np.sum([part.values for part in self.wishes(number, rows)], axis=0) + np.zeros(len(rows))

    def wishes(self, number: int, rows: Int) -> tuple[preference.Part, ...]:
        """Each soft term's share, over rows that pass; none for terms that the pod does not have."""
        kind, k = self._pods[number]
        rules = self.rules_of(kind)
        parts: list[preference.Part] = []
        if self.encoder.has_preferences(k):
            bits, weights = self.encoder.preferred(k)
            disliked = self.encoder.untolerated(k)
            nodes = self.encoder.nodes()
            if len(disliked):
                worth = preference.TAINT_WEIGHT * taints.score(nodes, disliked, rows)
                parts.append(preference.Part("taints", worth))
            if len(bits):
                worth = preference.NODE_AFFINITY_WEIGHT * node_affinity.score(nodes, bits, weights, rows)
                parts.append(preference.Part("node affinity", worth))
        if rules.soft_spread:
            soft = tuple(rule for rule, _ in self.spread_rules(k, kind, rules.soft_spread))
            parts.append(preference.Part("spread", preference.SPREAD_WEIGHT * spread.score(soft, rows)))
        total, asked = self._company(kind, rules, rows)
        if asked:
            worth = preference.POD_AFFINITY_WEIGHT * affinity_pods.score(total)
            parts.append(preference.Part("pod affinity", worth))
        for each, known_as in self._keepers(number):
            parts += each.wishes(known_as, rows)
        return tuple(parts)

    def _company(self, kind: Kind, rules: PodRules, rows: Int) -> tuple[Int, bool]:
        """Weights of wanted and unwanted company on each row, both directions, and whether any term was about it."""
        size = self.regions.size()
        total = np.zeros(len(rows), dtype=np.int64)
        asked = bool(rules.liked)
        for key, count, weight in rules.liked:
            if count.total:
                total += affinity_pods.preference_score(self.regions.domains(key), count.rows(size), weight, rows)
        for count in self.pod_counts.owners_about(kind):
            question = count.question
            if not (count.total and isinstance(question, Owns)) or question.role is Role.FORBIDS:
                continue
            weight = question.term.weight or affinity_pods.HARD_WEIGHT
            signed = -weight if question.role is Role.DISLIKES else weight
            domains = self.regions.domains(question.term.topology_key)
            total += affinity_pods.preference_score(domains, count.rows(size), signed, rows)
            asked = True
        return total, asked

    def _set(self, number: int, kind: Kind, shape: int) -> None:
        self._pods[number] = (kind, shape)
        if number >= len(self._kinds):
            more = np.full(max(number + 1, len(self._kinds)), -1, dtype=np.int64)
            self._kinds = np.concatenate([self._kinds, more])
        self._kinds[number] = kind.index

    def _release(self, kind: Kind) -> None:
        if self.pod_counts.release(kind):
            rules = self._rules.pop(kind, None)
            for count in rules.counts() if rules is not None else ():
                self.pod_counts.discount(count)


def _role(count: Count) -> Role | None:
    return count.question.role if isinstance(count.question, Owns) else None
