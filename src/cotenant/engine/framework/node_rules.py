"""What some pods need of a node beyond its row: CPUs of their own, devices, a load below a threshold.

Problem: which CPUs or devices are free is no sum, so no compiled filter can see it, and what was chosen must be given back exactly. Choice: a
keeper of such things answers with rows, as every rule of narrowing does (engine/state/narrowing.py), chooses on the row that won, and keeps what a pod
was given by the pod's number until the number is forgotten. It knows nodes by name, and the encoder's rows. Facts about nodes outlive `attach`,
which begins anew with other rows and no pods. Keepers do not know one another; where things of two have to lie on the same NUMA nodes, one of them is
the host of the alignment and the others provide hints (`NumaHost`, `NumaProvider`), as with the kubelet's topology manager, and `introduce` makes them
known to each other. Limits: a pod with such needs is judged alone, with a few passes over the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

from cotenant.engine.encoding.encoder import Encoder
from cotenant.model.arrays import Int, Mask
from cotenant.model.cluster.demands import Demands, Holdings
from cotenant.model.cluster.pod import Pod
from cotenant.model.errors import Permanent
from cotenant.policy.placement.numa import Hints
from cotenant.policy.placement.preemption import Column
from cotenant.policy.placement.preference import Part


class Rule(NamedTuple):
    """One rule's answer: who asks, why it refuses, which rows it leaves, and whether removing pods could open the others.

    `figures` of some of the rows that it refuses: what the one that lacks least lacks, in words; None where there is nothing to say.
    """

    plugin: str
    reason: str
    left: Mask  # [N]
    yields: bool
    figures: Callable[[Mask], str] | None = None


class NodeRules(Protocol):
    """A keeper of one kind of thing. Numbers and rows are the encoder's."""

    name: str  # of the plugin, in reasons; as in Koordinator where it has one

    def attach(self, encoder: Encoder) -> None:
        """Begin anew: no pod is known, rows are this encoder's; facts about nodes stay."""
        ...

    def watch(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """A pod, before it is placed or seated. Whether it needs anything from here, or was given something: the others are not asked about again."""
        ...

    def held(self, number: int, holds: Holdings) -> None:
        """A watched pod's holdings were told anew; they replace what is known."""
        ...

    def rules(self, number: int) -> Iterator[Rule]:
        """What a watched pod needs of a row; none where it needs nothing."""
        ...

    def wishes(self, number: int, rows: Int) -> tuple[Part, ...]:
        """What makes one of these rows, all of which pass, better than another; empty where nothing does."""
        ...

    def choose(self, number: int, row: int) -> None:
        """The pod was placed on a row that its rules left: choose and keep. Raises `Permanent` where nothing is left after all."""
        ...

    def assign(self, number: int, row: int) -> None:
        """The pod sits there, by somebody's word: what it holds (chosen before, or told) is taken; nothing is chosen."""
        ...

    def leave(self, number: int) -> None:
        """It left its row; what it held is free, and remembered until it is chosen for again or forgotten."""
        ...

    def forget(self, number: int) -> None:
        """The pod is gone for good."""
        ...

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """`holds` with what the pod was given here."""
        ...

    def validate(self) -> None:
        """What is free and what is held add up. Raises `Permanent`."""
        ...


@runtime_checkable
class Clearing(Protocol):
    """A keeper with rules that yield offers this: without it, preemption would clear a row that stays refused."""

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[Column]:
        """What residents add up to for a watched pod, and the most of it that lets the pod in. `pods[V]` may be removed; they sit on `rows[V]`."""
        ...


class Lent(NamedTuple):
    """What is kept on one row for a pod that may draw from it."""

    holds: Holdings
    strict: frozenset[str]  # resources that must come from it, where it has any of the kind


@runtime_checkable
class Lending(Protocol):
    """A keeper of things with numbers offers this: pods draw them from what another pod of theirs keeps (engine/plugins/reservations/plugin.py)."""

    def draw(self, number: int, lent: Mapping[int, Lent]) -> None:
        """Until told otherwise a watched pod is judged, and chosen for, on these rows by what is kept for it there. Nobody holds that meanwhile."""
        ...

    def keep(self, number: int, holds: Holdings) -> None:
        """A watched pod that sits nowhere holds this from now on, and once it is seated nothing else: nothing is guessed for it."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """A keeper that can speak for a run of pods: each takes the same of every row, and of nothing else here."""

    def alike(self, number: int) -> Hashable:
        """Pods of one value may be placed in one run; None for a pod that must be judged by itself, as when it has wishes."""
        ...

    def times(self, number: int) -> Int:
        """`int64[N]`: how many such pods each row takes, one after the other; 0 = it is refused there."""
        ...


@runtime_checkable
class NumaProvider(Protocol):
    """A keeper whose things lie on NUMA nodes. On rows where its host settles on some for a pod, it judges, wishes and chooses within them."""

    def hosted(self, host: NumaHost) -> None:
        """From now on this one says where the things of a pod have to lie together."""
        ...

    def numa_kind(self, number: int) -> Hashable:
        """Pods of one value have equal hints on every row; None for a pod with nothing to align here."""
        ...

    def numa_marks(self) -> Int:
        """`int64[N]`: another number where hints may be others than before; rows with equal numbers give equal hints."""
        ...

    def numa_hints(self, number: int, row: int, numa_nodes: tuple[int, ...]) -> Hints:
        """On which of these NUMA nodes (ids) the row could serve the pod; nothing where it does not care, or refuses the row itself."""
        ...


@runtime_checkable
class NumaHost(Protocol):
    """A keeper that merges the hints of all, and refuses rows where they do not meet as the policy demands."""

    def host(self, providers: tuple[NumaProvider, ...]) -> None:
        """From now on these have a say."""
        ...

    def provided(self) -> None:
        """What some node has of a provider's things is other than before, and not by a pod that came or went."""
        ...

    def strict(self, number: int) -> Mask | None:
        """Rows where a pod's things have to be aligned, so that what a provider's sums say of evictions does not suffice; None = nowhere."""
        ...

    def affinities(self, number: int, resource: str) -> Int | None:
        """`int64[N]`: the NUMA nodes (mask) where a resource of a provider's hints is to be taken on each row, -1 = anywhere; None = anywhere on all."""
        ...

    def affinity(self, number: int, resource: str) -> int | None:
        """The same on the row that the host chose for last."""
        ...


def introduce(keepers: tuple[NodeRules, ...]) -> None:
    """Make a host and its providers known to one another. Raises `Permanent` where a provider would choose before its host."""
    hosts = [place for place, each in enumerate(keepers) if isinstance(each, NumaHost)]
    for place in hosts[:1]:
        host = keepers[place]
        assert isinstance(host, NumaHost)
        if any(isinstance(each, NumaProvider) for each in keepers[:place]):
            raise Permanent(f"{host.name} has to stand before those whose things it aligns")
        providers = tuple(each for each in keepers if isinstance(each, NumaProvider))
        host.host(providers)
        for each in providers:
            each.hosted(host)
