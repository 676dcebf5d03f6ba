"""CPUs and NUMA nodes of a cluster: which nodes can give a pod its own, which they are, and who holds them.

Problem: latency-critical pods get CPUs of their own, near one another and away from others, on nodes whose topology somebody else tells, and both
change at any time. Choice: a keeper of node rules (engine/framework/node_rules.py): books by node's name (`cpu_books`), verdicts by kind of need and row
(`cpu_verdicts`), judged by policy/placement/cpus. What a pod was given stays with its number, so that a seat left and taken again is the same.
Nodes without a topology cannot give CPUs of one's own. While no node tells any, nobody gives CPUs: then only pods that insist wait for one.

It is the host of the NUMA alignment: where a policy holds, of the pod or of the node, the hints of CPU and memory are merged with those of the other
keepers (`cpu_beside`), which ask here on which NUMA nodes of a row their things have to lie.

Limits: pods without CPUs of their own, without devices and without a NUMA policy are not asked about, also on nodes whose labels would bind or align
everybody. CPUs are not kept for a nominated pod; its request is. Under a NUMA policy no eviction is looked for: no sum says what it would bring.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.node_rules import Lent, NumaProvider, Rule
from cotenant.engine.rules.cpus.accounts import Claim, CpuBooks, validate_books
from cotenant.engine.rules.cpus.amplification import short_of_amplified
from cotenant.engine.rules.cpus.companions import Beside
from cotenant.engine.rules.cpus.kinds import answer, likeness
from cotenant.engine.rules.cpus.updates import CpuNews
from cotenant.engine.rules.cpus.verdicts import Answer, Kinds, Verdicts
from cotenant.engine.rules.cpus.victims import cpu_column
from cotenant.engine.rules.cpus.views import CpusOfNode, described
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.cpus.reported import PPM, NodeTopology
from cotenant.model.cpus.spec import ExclusivePolicy, ResourceStatus, TopologyPolicy
from cotenant.model.cpus.topology import CpuTopology, mask_of, numbers_in
from cotenant.model.devices.request import asks_devices
from cotenant.model.errors import Permanent
from cotenant.model.resources import CPU_NAME
from cotenant.policy.placement.cpus.drawing import give_from
from cotenant.policy.placement.cpus.needs import CpuNeed, cpu_need, shared_need
from cotenant.policy.placement.cpus.node_fit import CpuNode, Given, Sets, give
from cotenant.policy.placement.numa import nobody
from cotenant.policy.placement.preemption import Column
from cotenant.policy.placement.preference import Part
from cotenant.policy.placement.refusal import Refusal

NAME = "NodeNUMAResource"
WISH_WEIGHT = 100.0  # of kept wishes, on the scale of a profile's score
_MOST_TOPOLOGIES = 4096


@dataclass(slots=True)
class _Pod:
    """A watched pod."""

    key: str
    need: CpuNeed | None
    exclusive: ExclusivePolicy
    claim: Claim | None = None  # what it was given, or was told to have
    chosen_for: str = ""  # the node that it was chosen for; "" = told
    node: str = ""  # where it sits
    elsewhere: Sets = ()  # where what others keep was to be taken on the row that was chosen for last
    lent: Mapping[int, Lent] = field(default_factory=dict)  # row -> what is kept for it there


class Cpus:
    """The keeper. Meets `NodeRules`, `Clearing`, `Lending` and `NumaHost` of engine/framework/node_rules.py."""

    name = NAME

    def __init__(self) -> None:
        self.news = CpuNews(NAME, self.need_of)
        self._books: dict[str, CpuBooks] = {}
        self._told = 0  # nodes that tell a topology
        self._amplified: set[str] = set()  # nodes that promise more CPU than they have
        self._aligning: set[str] = set()  # nodes with a NUMA policy
        self._beside = Beside()
        self._alive: dict[int, CpuTopology] = {}  # by identity: none is given to another while verdicts are kept
        self._begin(None)

    def _begin(self, encoder: Encoder | None) -> None:
        self._encoder = encoder
        self._pods: dict[int, _Pod] = {}
        self._kinds = Kinds()
        self._clock = 0
        self._versions: Int = np.zeros(0, dtype=np.int64)
        self._at: dict[int, Node] = {}  # row -> node, as last looked at
        self._revision = -1

    # ---- facts about nodes

    def topology_seen(self, told: NodeTopology, now_s: float) -> None:
        """A node tells its CPUs, or tells them anew."""
        books = self._open(told.name)
        if books.told == told:
            return
        self._told += books.told is None
        if id(told.topology) not in self._alive:
            if len(self._alive) >= _MOST_TOPOLOGIES:
                self._alive = {id(each.told.topology): each.told.topology for each in self._books.values() if each.told}
                self._kinds.forget_alike()
            self._alive[id(told.topology)] = told.topology
        books.tell(told)
        (self._amplified.add if told.ratio_ppm > PPM else self._amplified.discard)(told.name)
        self._note_policy(told.name, books)
        self._changed(told.name, books)

    def topology_gone(self, name: str, now_s: float) -> None:
        """A node tells nothing any more; who holds CPUs there still does."""
        books = self._books.get(name)
        if books is None or books.told is None:
            return
        self._told -= 1
        books.tell(None)
        self._amplified.discard(name)
        self._note_policy(name, books)
        self._changed(name, books)
        self._tidy(name, books)

    def _changed(self, name: str, books: CpuBooks) -> None:
        self._touch_name(name)
        for _ in books.met():
            self.news.odd("CPUs that a pod holds are not its node's to give any more")
        self.news.changed()

    # ---- NodeRules

    def attach(self, encoder: Encoder) -> None:
        """Begin anew: no pod is known, rows are this encoder's; what nodes tell stays."""
        self._begin(encoder)
        for name, books in list(self._books.items()):
            for number in list(books.claims):
                books.release(number)
            self._tidy(name, books)

    def watch(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Whether it needs CPUs or NUMA nodes of its own, has some, or has things elsewhere that a node may want aligned."""
        need = cpu_need(pod, demands)
        if need is None and self._beside and asks_devices(pod.requests):
            need = shared_need(pod)
        if need is None and holds.cpus is None:
            return False
        exclusive = need.spec.exclusive if need is not None else ExclusivePolicy.NONE
        entry = self._pods[number] = _Pod(pod.key, need, exclusive)
        if holds.cpus is not None:
            entry.claim = Claim.told(pod.key, holds.cpus, exclusive)
        return True

    def held(self, number: int, holds: Holdings) -> None:
        """What it was given is told anew; nothing where nothing of CPUs is told."""
        pod = self._pods.get(number)
        if pod is None or holds.cpus is None:
            return
        claim = Claim.told(pod.key, holds.cpus, pod.exclusive)
        if claim == pod.claim:
            pod.chosen_for = ""
            return
        name = pod.node
        if name:
            self._stand(number, pod)
        pod.claim, pod.chosen_for = claim, ""
        if name:
            self._sit(number, pod, name)

    def rules(self, number: int) -> Iterator[Rule]:
        """Which rows can give it what it needs."""
        pod = self._pods.get(number)
        need = pod.need if pod is not None else None
        if pod is None or need is None or not (self._told or need.is_strict):
            return
        verdicts = self._judged(number, need)
        if verdicts is None:
            return
        size = len(self._versions)
        for told, left in verdicts.refusals(size):
            left[list(pod.lent)] = True
            yield Rule(NAME, told.reason, left, told.yields, verdicts.nearest)
        for row in pod.lent:
            given = self._given(number, pod, need, row)
            if isinstance(given, Refusal):
                left = np.ones(size, dtype=np.bool_)
                left[row] = False
                yield Rule(NAME, given.reason, left, False)
        if need.own:
            assert self._encoder is not None
            promising = {name: self._books[name] for name in self._amplified}
            yield from short_of_amplified(NAME, self._encoder, promising, need.cpu_m)

    def wishes(self, number: int, rows: Int) -> tuple[Part, ...]:
        """Rows on which its CPUs would lie as it would rather have them, and away from whom it avoids."""
        pod = self._pods.get(number)
        if pod is None or pod.need is None or not self._told or pod.lent:
            return ()
        verdicts = self._judged(number, pod.need)
        if verdicts is None:
            return ()
        kept = verdicts.kept[rows]
        if kept.all() or not kept.any():
            return ()
        return (Part("CPUs as wished", np.where(kept, WISH_WEIGHT, 0.0)),)

    def choose(self, number: int, row: int) -> None:
        """Choose CPUs and NUMA nodes on this row, and take them."""
        pod = self._pods[number]
        name = self._name(row)
        if pod.need is not None:
            pod.claim, pod.chosen_for, pod.elsewhere = None, name, ()
            given = self._given(number, pod, pod.need, row)
            if isinstance(given, Refusal):
                raise Permanent(
                    f"{pod.key} was placed on {name}, which cannot give its CPUs: {given.reason}, {given.nearest}"
                )
            if given is not None:
                pod.elsewhere = given.elsewhere
                if given.cpus or given.numa:
                    pod.claim = Claim.chosen(pod.key, given, pod.exclusive)
        self._sit(number, pod, name)

    def assign(self, number: int, row: int) -> None:
        """It sits there with what it holds; nothing is chosen."""
        self._sit(number, self._pods[number], self._name(row))

    def leave(self, number: int) -> None:
        """What it holds is free, and remembered."""
        self._stand(number, self._pods[number])

    def forget(self, number: int) -> None:
        """It is gone for good."""
        pod = self._pods.pop(number)
        if pod.node:
            self._stand(number, pod)

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """With its CPUs and NUMA amounts."""
        claim = self._pods[number].claim
        if claim is None:
            return holds
        return replace(holds, cpus=ResourceStatus(numbers_in(claim.cpus), claim.numa))

    def draw(self, number: int, lent: Mapping[int, Lent]) -> None:
        """Until told otherwise the pod is judged on these rows by what is kept for it there."""
        some = [row for row, kept in lent.items() if kept.holds.cpus is not None or kept.holds.devices]
        told = {row: self._known(row, self._name(row)) for row in some}
        self._pods[number].lent = {row: lent[row] for row, books in told.items() if books is not None and books.node}

    def keep(self, number: int, holds: Holdings) -> None:
        """A pod that sits nowhere holds this and nothing else."""
        pod = self._pods[number]
        pod.claim = Claim.told(pod.key, holds.cpus, pod.exclusive) if holds.cpus is not None else None
        pod.chosen_for = ""

    def validate(self) -> None:
        """Every book says what its pods claim, and no CPU is held twice in a ledger. Raises `Permanent`."""
        seated: dict[str, dict[int, Claim]] = {}
        for number, pod in self._pods.items():
            if pod.node and pod.claim is not None:
                seated.setdefault(pod.node, {})[number] = pod.claim
        validate_books(self._books, seated)
        if self._told != sum(books.told is not None for books in self._books.values()):
            raise Permanent("the count of nodes that tell their CPUs is wrong")
        if self._aligning != {name for name, books in self._books.items() if books.aligns}:
            raise Permanent("the nodes with a NUMA policy are others than those that are known")

    # ---- NumaHost

    def host(self, providers: tuple[NumaProvider, ...]) -> None:
        """These have a say in the alignment."""
        self._beside = Beside(providers)

    def provided(self) -> None:
        """Pods that were refused for their alignment may try again."""
        self.news.changed()

    def strict(self, number: int) -> Mask | None:
        """Rows where what the pod gets has to be aligned."""
        verdicts = self._aligned(number)
        return verdicts.strict if verdicts is not None else None

    def affinities(self, number: int, resource: str) -> Int | None:
        """Where a provider's resource is to be taken on each row."""
        verdicts = self._aligned(number)
        return verdicts.elsewhere.get(resource) if verdicts is not None else None

    def affinity(self, number: int, resource: str) -> int | None:
        """Where it is to be taken on the row that was chosen for."""
        pod = self._pods.get(number)
        return next((nodes for name, nodes in pod.elsewhere if name == resource), None) if pod is not None else None

    def _aligned(self, number: int) -> Verdicts | None:
        pod = self._pods.get(number)
        return self._judged(number, pod.need) if pod is not None and pod.need is not None and self._told else None

    # ---- Clearing

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[Column]:
        """CPUs that must be free on each row, as a sum over its pods (engine/cycle/preemption.py): whole cores count for each pod on them."""
        need = self._pods[number].need
        if need is None or not need.own or not self._told:
            return
        verdicts = self._judged(number, need)
        assert verdicts is not None
        known = {row: self._books[node.name] for row, node in self._at.items() if node.name in self._books}
        yield cpu_column(need, verdicts, known, pods)

    # ---- questions

    def describe(self, node: str) -> CpusOfNode | None:
        """What is known of a node's CPUs; None where nothing is."""
        books = self._books.get(node)
        return described(node, books) if books is not None else None

    def need_of(self, number: int) -> CpuNeed | None:
        """What a watched pod needs; None for any other."""
        pod = self._pods.get(number)
        return pod.need if pod is not None else None

    def nodes(self) -> tuple[str, ...]:
        """Nodes of whose CPUs anything is known, by name."""
        return tuple(sorted(self._books))

    # ---- seats

    def _given(self, number: int, pod: _Pod, need: CpuNeed, row: int) -> Given | Refusal | None:
        """What the pod would get on a row; None where the node tells no CPUs. Devices that are kept for it lie where they lie."""
        books = self._known(row, self._name(row))
        if books is None or books.node is None:
            return None
        lent = pod.lent.get(row)
        has_devices = lent is not None and lent.holds.devices
        others = nobody if has_devices else self._beside.of(number, self._beside.kind(number), row)
        if lent is None or lent.holds.cpus is None:
            return give(books.node, need, others)
        kept = mask_of(lent.holds.cpus.cpus)
        return give_from(books.node, need, kept, CPU_NAME in lent.strict, others)

    def _name(self, row: int) -> str:
        assert self._encoder is not None
        return self._encoder.node(row).name

    def _known(self, row: int, name: str) -> CpuBooks | None:
        """The node's books, with its labels as they are now."""
        assert self._encoder is not None
        node = self._encoder.node(row)
        if self._at.get(row) is not node:
            self._note(row, node)
        return self._books.get(name)

    def _sit(self, number: int, pod: _Pod, name: str) -> None:
        if pod.node:
            raise Permanent(f"{pod.key} sits on {pod.node} already")
        pod.node = name
        if pod.chosen_for not in ("", name):
            pod.claim = None  # of another node: somebody else bound it here
        if pod.claim is None:
            return
        met = self._open(name).claim(number, pod.claim)
        if met:
            self.news.odd("CPUs told of two pods, or not their node's to give")
        self._touch_name(name)

    def _stand(self, number: int, pod: _Pod) -> None:
        name, pod.node = pod.node, ""
        if not name or pod.claim is None:
            return
        books = self._books[name]
        books.release(number)
        self._touch_name(name)
        self._tidy(name, books)

    def _open(self, name: str) -> CpuBooks:
        """The books of a node, with its labels as far as they are known."""
        books = self._books.get(name)
        if books is None:
            books = self._books[name] = CpuBooks()
            row = self._encoder.node_rows.get(name) if self._encoder is not None else None
            if row is not None and self._encoder is not None:
                books.relabel(self._encoder.node(row).labels)
        return books

    def _note_policy(self, name: str, books: CpuBooks) -> None:
        (self._aligning.add if books.aligns else self._aligning.discard)(name)

    def _tidy(self, name: str, books: CpuBooks) -> None:
        if books.is_idle:
            del self._books[name]

    # ---- verdicts

    def _touch_name(self, name: str) -> None:
        row = self._encoder.node_rows.get(name) if self._encoder is not None else None
        if row is not None:
            self._touch(row)

    def _touch(self, row: int) -> None:
        self._clock += 1
        if row < len(self._versions):
            self._versions[row] = self._clock

    def _note(self, row: int, node: Node) -> None:
        self._at[row] = node
        books = self._books.get(node.name)
        if books is not None and books.labels != node.labels:
            books.relabel(node.labels)
            self._note_policy(node.name, books)
        self._touch(row)

    def _bring(self) -> None:
        """Take in the encoder's nodes as they are now."""
        encoder = self._encoder
        assert encoder is not None
        size = len(encoder.nodes().ready)
        if size > len(self._versions):
            more = np.zeros(size - len(self._versions), dtype=np.int64)
            self._versions = np.concatenate([self._versions, more])
        if self._revision != encoder.revision:
            self._revision = encoder.revision
            gone = self._at.keys() - set(encoder.node_rows.values())
            for row in gone:
                del self._at[row]
                self._touch(row)
            for row in encoder.node_rows.values():
                node = encoder.node(row)
                if self._at.get(row) is not node:
                    self._note(row, node)

    def _judged(self, number: int, need: CpuNeed) -> Verdicts | None:
        """Up to date; None where nothing of this pod is judged here, as no node aligns it."""
        self._bring()
        if not (need.own or need.numa.policy is not TopologyPolicy.NONE or self._aligning):
            return None
        books, beside = self._books, self._beside
        kind = beside.kind(number)
        marks = beside.marks(kind)
        verdicts = self._kinds.of(need, kind)

        def standing(row: int) -> CpuNode | None:
            known = books.get(self._at[row].name)
            return known.node if known is not None else None

        def key(row: int) -> Hashable:
            return row not in self._at or likeness(standing(row), need, [int(each[row]) for each in marks])

        def judge(row: int) -> Answer:
            return answer(standing(row), need, beside.of(number, kind, row)) if row in self._at else Answer(None)

        verdicts.bring(self._versions, marks, key, judge)
        return verdicts
