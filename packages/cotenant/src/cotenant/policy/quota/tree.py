"""One tree of quotas: requests and use of each, and from those each one's runtime, kept up to date as pods arrive and
leave.

A change at one leaf changes the demand of all its ancestors and, where something is short, the runtime of its siblings
and their descendants; a thousand quotas cannot be recomputed for every pod. Demand propagates upwards at once, to the
first ancestor whose limited demand does not change. Runtime propagates downwards when it is read (division.py).
`runtime` of one quota refreshes its path, `refresh` everything.
Limits: adding, changing or removing a quota rebuilds the tree (`put`, `remove`); the tree accepts any quotas whose
parents exist, and admission.py checks the rest. A parent that does not mention a resource has none of it to divide.
Resources that no maximum mentions are counted but never limited. With `guarantee_use`, guarantees may exceed the total
when that shrinks.

Source: Koordinator's group_quota_manager.go (propagation of requests, scaled minima, usage guarantees).
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import ROOT_QUOTA, Levels, Quota
from cotenant.model.resources import Amounts
from cotenant.policy.quota.division import Division
from cotenant.policy.quota.nodes import QuotaColumn, QuotaNode, RuntimeTerms


class QuotaTree:
    """The quotas of one tree under a total. Amounts that were added must be removed with the same values."""

    def __init__(
        self, quotas: Iterable[Quota], total: Amounts, scale_minima: bool = True, guarantee_use: bool = False
    ) -> None:
        given = tuple(quotas)
        self._quotas = {quota.name: quota for quota in given}
        if len(self._quotas) < len(given):
            raise InvalidInput("quotas", ", ".join(sorted(quota.name for quota in given)), "each name once")
        self._scale = scale_minima
        self._guarantee = guarantee_use
        self._total = total
        self._names: dict[str, int] = {}
        self._division = Division(scale_minima, guarantee_use)
        self._build()

    # --- current state

    @property
    def changes(self) -> int:
        """Incremented whenever a runtime may have changed."""
        return self._division.changes

    def __contains__(self, name: object) -> bool:
        return name in self._quotas

    def quotas(self) -> tuple[Quota, ...]:
        """All quotas, sorted by name."""
        return tuple(self._quotas[name] for name in sorted(self._quotas))

    def quota(self, name: str) -> Quota:
        """One quota; raises `InvalidInput` for an unknown name."""
        return self._node(name).quota

    def path(self, name: str) -> tuple[str, ...]:
        """The quota and its ancestors below the root, the quota first."""
        return tuple(node.quota.name for node in self._node(name).upwards() if node.parent is not None)

    def children(self, name: str = ROOT_QUOTA) -> tuple[str, ...]:
        """The quotas directly below this one, sorted by name."""
        return tuple(child.quota.name for child in self._node(name).children)

    def resources(self) -> tuple[str, ...]:
        """Every resource mentioned so far."""
        return tuple(self._names)

    def total(self) -> Amounts:
        """The total that the tree divides."""
        return self._total

    def runtime(self, name: str) -> Levels:
        """A quota's current limit for each resource that its maximum mentions."""
        node = self._node(name)
        self._division.refresh_path(node)
        return tuple((resource, node.columns[self._names[resource]].runtime) for resource, _ in node.quota.maximum)

    def used(self, name: str = ROOT_QUOTA) -> Levels:
        """Use by the pods of a quota and its descendants."""
        return tuple((resource, self._node(name).columns[i].used) for resource, i in self._names.items())

    def nonpreemptible_used(self, name: str) -> Levels:
        """The part of `used` by non-preemptible pods."""
        return tuple((resource, self._node(name).columns[i].held) for resource, i in self._names.items())

    def runtime_terms(self, name: str, resource: str) -> RuntimeTerms:
        """The inputs of a quota's runtime in one resource."""
        node = self._node(name)
        if resource not in self._names or node.parent is None:
            raise InvalidInput("resource", resource, f"one of {', '.join(self._names)} at a quota below the root")
        self._division.refresh_path(node)
        i = self._names[resource]
        column = node.columns[i]
        request = column.asked if node.lends else max(column.asked, column.minimum)
        return RuntimeTerms(
            resource,
            column.own,
            column.asked,
            request,
            column.limited,
            column.used,
            column.minimum,
            self._division.scaled_minimum(node, i),
            column.used_own + column.children_guaranteed if self._guarantee else 0,
            column.guaranteed,
            column.maximum if resource in node.quota.maximum else None,
            column.weight,
            node.parent.columns[i].runtime,
            column.start,
            column.runtime,
        )

    # --- events

    def ask(self, name: str, amounts: Amounts) -> None:
        """Add the requests of a pod of this quota, placed or not."""
        self._request(name, amounts.items, 1)

    def withdraw(self, name: str, amounts: Amounts) -> None:
        """Withdraw the requests of a pod that has left."""
        self._request(name, amounts.items, -1)

    def use(self, name: str, amounts: Amounts, preemptible: bool = True) -> None:
        """Add the use of a pod that was placed."""
        self._use(name, amounts.items, 1, preemptible)

    def release(self, name: str, amounts: Amounts, preemptible: bool = True) -> None:
        """Release the use of a pod that is no longer placed."""
        self._use(name, amounts.items, -1, preemptible)

    def load(self, name: str, asked: Levels, used: Levels, held: Levels) -> None:
        """Add many pods at once: their requests, and the use of placed pods, preemptible (`used`) and not (`held`)."""
        self._request(name, asked, 1)
        self._use(name, used, 1, True)
        self._use(name, held, 1, False)

    def copy(self) -> QuotaTree:
        """An independent tree with the same state."""
        made = QuotaTree(self._quotas.values(), self._total, self._scale, self._guarantee)
        made._add_from(self._nodes, self._names)
        return made

    def set_total(self, total: Amounts) -> None:
        """Set the total after the cluster grew or shrank."""
        self._total = total
        for resource, _ in total:
            self._column(resource)
        for resource, i in self._names.items():
            amount = total.get(resource)
            if amount != self._root.columns[i].runtime:
                self._root.columns[i].runtime = amount
                self._division.mark(self._root, i)

    def put(self, quota: Quota) -> None:
        """Add or replace a quota; raises `InvalidInput` where the tree would be inconsistent, without any change."""
        self._rebuild({**self._quotas, quota.name: quota})

    def remove(self, name: str) -> None:
        """Remove a quota without children, with its pods' requests and use."""
        if self._node(name).children:
            raise InvalidInput("quota", name, "a quota without children", "remove the children first")
        self._rebuild({other: quota for other, quota in self._quotas.items() if other != name})

    def refresh(self) -> None:
        """Bring every runtime up to date."""
        self._division.refresh()

    def validate(self) -> None:
        """Compare everything with a tree computed from the pods' own amounts only, and every division with the plain
        arithmetic.

        Raises AssertionError with the first difference.
        """
        self.refresh()
        fresh = self.copy()
        fresh.refresh()
        for name, node in self._nodes.items():
            for resource, i in self._names.items():
                mine, other = node.columns[i], fresh._nodes[name].columns[fresh._names[resource]]
                for field in ("asked", "limited", "used", "held", "guaranteed", "floor", "start", "runtime", "target"):
                    kept, computed = getattr(mine, field), getattr(other, field)
                    if kept != computed:
                        raise AssertionError(f"quota {name}: {field} of {resource} is {kept}, recomputed {computed}")
                if min(mine.own, mine.used_own, mine.held_own) < 0:
                    raise AssertionError(f"quota {name}: more {resource} was removed than was added")
                if i < self._division.divided:
                    self._division.validate(node, i, resource)

    # --- demand and use, upwards

    def _request(self, name: str, amounts: Levels, sign: int) -> None:
        node = self._node(name)
        for resource, amount in amounts:
            i = self._names.get(resource, -1)
            if i < 0:
                i = self._column(resource)
            node.columns[i].own += sign * amount
            self._ask(node, i, sign * amount)

    def _ask(self, node: QuotaNode, i: int, change: int) -> None:
        at: QuotaNode | None = node
        while at is not None and change:
            column = at.columns[i]
            column.asked += change
            request = column.asked if at.lends or column.asked > column.minimum else column.minimum
            limited = request if request < column.maximum else column.maximum
            change = limited - column.limited
            column.limited = limited
            if at.parent is not None and change:
                self._division.update_target(at, at.parent, i, limited - change)
            at = at.parent

    def _use(self, name: str, amounts: Levels, sign: int, preemptible: bool) -> None:
        node = self._node(name)
        for resource, amount in amounts:
            i = self._names.get(resource, -1)
            if i < 0:
                i = self._column(resource)
            change = sign * amount
            column = node.columns[i]
            column.used_own += change
            if not preemptible:
                column.held_own += change
            at: QuotaNode | None = node
            while at is not None:
                column = at.columns[i]
                column.used += change
                if not preemptible:
                    column.held += change
                at = at.parent
            if self._guarantee:
                self._guaranteed(node, i)

    def _guaranteed(self, node: QuotaNode, i: int) -> None:
        at = node
        while at.parent is not None:
            column = at.columns[i]
            guaranteed = max(column.used_own + column.children_guaranteed, column.minimum)
            if guaranteed == column.guaranteed:
                return
            at.parent.columns[i].children_guaranteed += guaranteed - column.guaranteed
            column.guaranteed = guaranteed
            self._division.update_target(at, at.parent, i)
            at = at.parent

    # --- structure

    def _build(self) -> None:
        for quota in self._quotas.values():
            if quota.name == ROOT_QUOTA:
                raise InvalidInput("quota", quota.name, "a quota below the root")
            if quota.parent != ROOT_QUOTA and quota.parent not in self._quotas:
                raise InvalidInput(f"quota {quota.name}", quota.parent, "the name of a quota as its parent")
            for amounts in (quota.maximum, quota.minimum):
                for resource, _ in amounts:
                    self._names.setdefault(resource, len(self._names))
        divided = len(self._names)  # further columns are not limited
        for resource, _ in self._total:
            self._names.setdefault(resource, len(self._names))
        below: dict[str, list[Quota]] = {}
        for name in sorted(self._quotas):
            below.setdefault(self._quotas[name].parent, []).append(self._quotas[name])
        self._root = QuotaNode(Quota(ROOT_QUOTA, is_parent=True), None, len(self._names))
        self._nodes = {ROOT_QUOTA: self._root}
        ordered = [self._root]
        for node in ordered:  # grows during the iteration, so parents precede their children
            for quota in below.get(node.quota.name, ()):
                child = QuotaNode(quota, node, len(self._names))
                node.children.append(child)
                self._nodes[quota.name] = child
                ordered.append(child)
        if len(self._nodes) <= len(self._quotas):
            lost = min(name for name in self._quotas if name not in self._nodes)
            raise InvalidInput(f"quota {lost}", self._quotas[lost].parent, "a chain of parents that ends at the root")
        self._division.begin(divided, ordered[-1].depth)
        for resource, i in self._names.items():
            self._root.columns[i].runtime = self._total.get(resource)
        for node in ordered:
            self._read_columns(node)
            for i in range(divided):
                self._division.mark(node, i)
        for node in reversed(
            ordered
        ):  # minima that are not lent count as requests, and minima are guaranteed, before any pod arrives
            for i in range(len(self._names)):
                self._first_request(node, i)

    def _read_columns(self, node: QuotaNode) -> None:
        weight = node.quota.weight
        for resource, i in self._names.items():
            column = node.columns[i]
            column.minimum = node.quota.minimum.get(resource)
            column.weight = weight.get(resource)
            if resource in node.quota.maximum:
                column.maximum = node.quota.maximum.get(resource)

    def _first_request(self, node: QuotaNode, i: int) -> None:
        column = node.columns[i]
        request = column.asked if node.lends else max(column.asked, column.minimum)
        column.limited = min(request, column.maximum)
        if node.parent is None:
            return
        node.parent.columns[i].asked += column.limited
        node.parent.columns[i].children_minimum += column.minimum
        if self._guarantee:
            column.guaranteed = max(column.children_guaranteed, column.minimum)
            node.parent.columns[i].children_guaranteed += column.guaranteed
        self._division.update_target(node, node.parent, i)

    def _rebuild(self, quotas: dict[str, Quota]) -> None:
        old = self._nodes, self._names
        fresh = QuotaTree(quotas.values(), self._total, self._scale, self._guarantee)
        fresh._add_from(*old)
        fresh._division.changes += self.changes + 1
        self._quotas, self._names = fresh._quotas, fresh._names
        self._root, self._nodes = fresh._root, fresh._nodes
        self._division = fresh._division

    def _add_from(self, nodes: dict[str, QuotaNode], names: dict[str, int]) -> None:
        """Add the requests and use of the same quotas in another tree."""
        for name, node in nodes.items():
            if name not in self._nodes or node.parent is None:
                continue
            for resource, i in names.items():
                self._column(resource)
                column = node.columns[i]
                mine = self._nodes[name]
                mine_at = self._names[resource]
                mine.columns[mine_at].own += column.own
                self._ask(mine, mine_at, column.own)
                for at in mine.upwards():
                    at.columns[mine_at].used += column.used_own
                    at.columns[mine_at].held += column.held_own
                mine.columns[mine_at].used_own += column.used_own
                mine.columns[mine_at].held_own += column.held_own
                if self._guarantee:
                    self._guaranteed(mine, mine_at)

    def _column(self, resource: str) -> int:
        """The column of a resource; a new one where it was never mentioned, without maximum, weight or share."""
        i = self._names.setdefault(resource, len(self._names))
        if i == len(self._root.columns):
            for node in self._nodes.values():
                node.columns.append(QuotaColumn())
        return i

    def _node(self, name: str) -> QuotaNode:
        try:
            return self._nodes[name]
        except KeyError:
            raise InvalidInput("quota", name, "the name of a quota of this tree") from None
