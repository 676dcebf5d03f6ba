"""The contract of node rules: requirements on a node that are not sums, such as exclusive CPUs, devices, and a load
below a threshold.

Which CPUs or devices are free is not a sum, so no compiled filter can check it, and allocations must be undone exactly.
A node rule returns masks of rows, as all rules of narrowing do (engine/state/narrowing.py), allocates on the chosen
row, and keeps a pod's allocation by the pod's number until the pod is removed. It knows nodes by name, and by the
encoder's rows. Facts about nodes outlive `attach`, which starts again with other rows and without pods. Node rules do
not know one another; if allocations of two must be on the same NUMA nodes, one of them is the host of the alignment and
the others provide hints (`NumaHost`, `NumaProvider`), as with the kubelet's topology manager, and `introduce` connects
them.
Limits: a pod with such requirements is placed alone, with a few passes over the nodes.
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
from cotenant.policy.placement.preemption import ConstraintColumn
from cotenant.policy.placement.preference import PreferencePart
from cotenant.policy.placement.reprieve import Vacate


class RuleResult(NamedTuple):
    """The result of one rule: plugin, reason of rejections, rows that pass (`left`), and whether removing pods could
    make others pass (`yields`).

    `figures`, for some rejected rows: what the nearest of them lacks, in words; None if there is no figure.
    """

    plugin: str
    reason: str
    left: Mask  # [N]
    yields: bool
    figures: Callable[[Mask], str] | None = None


class NodeRules(Protocol):
    """A rule with allocations of one kind. Numbers and rows are the encoder's."""

    name: str  # of the plugin, in reasons; as in Koordinator where it has one

    def attach(self, encoder: Encoder) -> None:
        """Start again without pods, with this encoder's rows; facts about nodes stay."""
        ...

    def add_pod(self, number: int, pod: Pod, demands: Demands, holds: Holdings) -> bool:
        """Add an unassigned pod. Whether this rule applies to it, by its requirements or holdings; if not, no other
        method is called for it.
        """
        ...

    def set_holdings(self, number: int, holds: Holdings) -> None:
        """Replace a pod's holdings by those reported."""
        ...

    def rules(self, number: int) -> Iterator[RuleResult]:
        """The requirements of a pod; empty if it has none."""
        ...

    def preferences(self, number: int, rows: Int) -> tuple[PreferencePart, ...]:
        """Score parts over these rows, all of which are feasible; empty if there is no preference."""
        ...

    def allocate(self, number: int, row: int) -> None:
        """Allocate for a pod that was placed on a feasible row. Raises `Permanent` if that is impossible."""
        ...

    def assign(self, number: int, row: int) -> None:
        """Assign a pod with its holdings (allocated before, or reported); nothing new is allocated."""
        ...

    def unassign(self, number: int) -> None:
        """Unassign a pod; its holdings are free, and kept until the next allocation or its removal."""
        ...

    def remove_pod(self, number: int) -> None:
        """Remove a pod for good."""
        ...

    def holdings(self, number: int, holds: Holdings) -> Holdings:
        """`holds` extended by the pod's allocation of this rule."""
        ...

    def validate(self) -> None:
        """Check that free and held amounts add up. Raises `Permanent`."""
        ...


@runtime_checkable
class ClearingRules(Protocol):
    """For node rules with `yields`: without these columns, preemption would clear a row that stays rejected."""

    def columns(self, number: int, pods: Int, rows: Int) -> Iterator[ConstraintColumn]:
        """The sums of residents that matter for a pod, with the limits at which it fits. `pods[V]` may be removed; they
        are assigned to `rows[V]`.

        With `Vacating` too, the limits are necessary for the pod to fit, not sufficient.
        """
        ...


@runtime_checkable
class Vacating(Protocol):
    """For node rules with `yields` whose allocations no sum describes."""

    def vacate(self, number: int, row: int, nominated: tuple[int, ...] = ()) -> Vacate | None:
        """Whether the pod fits on a row without some residents; None where no resident of that row can change this
        rule's result.

        `nominated`: pods of no lower priority that wait for victims on the row, and are allocated before this one.
        """
        ...


@runtime_checkable
class Outlasting(Protocol):
    """For node rules whose allocations outlast the pods that use them: in a trial, those of departed pods are free."""

    def trial_begins(self) -> None:
        """What nobody uses any more counts as free."""
        ...

    def departs(self, number: int) -> None:
        """A pod is gone, and unassigned."""
        ...

    def trial_ends(self) -> None:
        """Everything is as before; departed pods are assigned again afterwards."""
        ...


@runtime_checkable
class Widening(Protocol):
    """For node rules that begin to apply to pods which were added before, as when a first node gets a policy for
    all pods.
    """

    may_widen: bool  # whether `widened` has to be asked

    def widened(self) -> bool:
        """Whether `add_pod` must be called again for the pods to which the rule did not apply. True once."""
        ...


@runtime_checkable
class Surplus(Protocol):
    """For node rules by which residents take more of a node's CPU than they request (`Encoder.set_withheld`)."""

    def surplus_m(self, pods: Int) -> Int:
        """`int64[V]`: milli-CPU that each of these pods takes beside its request."""
        ...


class Lent(NamedTuple):
    """What a reservation holds on one row for a pod that may use it."""

    holds: Holdings
    strict: frozenset[str]  # resources that must come from it, if it has any of the kind


@runtime_checkable
class LendingRules(Protocol):
    """For node rules with numbered allocations: pods can take them from a reservation's stand-in
    (engine/plugins/reservations/plugin.py).
    """

    def draw(self, number: int, lent: Mapping[int, Lent]) -> None:
        """Until the next call, evaluate and allocate for a pod on these rows by what is reserved for it there,
        which no pod holds meanwhile.
        """
        ...

    def keep(self, number: int, holds: Holdings) -> None:
        """Set what an unassigned pod holds once it is assigned, and nothing else: no allocation is assumed for it."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """For node rules that can evaluate a run of equal pods: each takes the same amount of every row, and nothing
    else of this rule.
    """

    def alike(self, number: int) -> Hashable:
        """Pods of one value may be placed in one run; None for a pod that must be placed alone, as one with
        preferences.
        """
        ...

    def times(self, number: int) -> Int:
        """`int64[N]`: how many such pods each row takes; 0 = rejected there."""
        ...


@runtime_checkable
class NumaProvider(Protocol):
    """For node rules with allocations on NUMA nodes. On rows where the host selects NUMA nodes for a pod, it
    evaluates, scores and allocates within them.
    """

    def hosted(self, host: NumaHost) -> None:
        """Set the host, which selects the NUMA nodes of a pod."""
        ...

    def numa_kind(self, number: int) -> Hashable:
        """Pods of one value have equal hints on every row; None for a pod without allocations to align."""
        ...

    def numa_marks(self) -> Int:
        """`int64[N]`: changes whenever a row's hints may change; rows with equal numbers give equal hints."""
        ...

    def numa_hints(
        self, number: int, row: int, numa_nodes: tuple[int, ...], without: frozenset[int] = frozenset()
    ) -> Hints:
        """On which of these NUMA nodes (ids) the row could serve the pod, `without` some residents; empty if the
        rule does not apply, or rejects the row itself.
        """
        ...


@runtime_checkable
class NumaHost(Protocol):
    """For the node rule that merges all hints, and rejects rows where they do not satisfy the topology policy."""

    def host(self, providers: tuple[NumaProvider, ...]) -> None:
        """Set the providers of hints."""
        ...

    def provided(self) -> None:
        """A provider's resources on some node changed other than by an assignment."""
        ...

    def affinities(self, number: int, resource: str) -> Int | None:
        """`int64[N]`: the NUMA nodes (mask) for a resource of a provider's hints on each row, -1 = any; None = any
        on all rows.
        """
        ...

    def affinity(self, number: int, resource: str) -> int | None:
        """The same for the row that the host allocated on last."""
        ...


def introduce(rules: tuple[NodeRules, ...]) -> None:
    """Connect a host with its providers. Raises `Permanent` if a provider would allocate before its host."""
    hosts = [place for place, rule in enumerate(rules) if isinstance(rule, NumaHost)]
    for place in hosts[:1]:
        host = rules[place]
        assert isinstance(host, NumaHost)
        if any(isinstance(rule, NumaProvider) for rule in rules[:place]):
            raise Permanent(f"{host.name} must come before the node rules that it aligns")
        providers = tuple(rule for rule in rules if isinstance(rule, NumaProvider))
        host.host(providers)
        for provider in providers:
            provider.hosted(host)
