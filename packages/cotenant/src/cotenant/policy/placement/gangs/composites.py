"""Composite groups: what a tree of groups asks of the gangs at its leaves.

A composite gang of `min_groups` children is placed as one bundle of the first that many of them, the oldest first; its
further children need that bundle to be satisfied and are placed after it. Under the basic policy children are
independent. The topology key of a composite gang counts for its whole bundle, that of a group below it for the group.
Keys of several composites above one another, or of one whose children are independent, are an obstacle, and never
ignored. A tree that upstream calls invalid (a cycle, more than four levels, several Workloads) is not placed either.

Source: KEP-6012, "Group hierarchy", "GangScheduling Plugin Changes" and "Integration with workload-aware preemption".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cotenant.model.groups.gang import CompositeGroup, Disruption, GangMode, GangTopology, MatchPolicy, PodGroup

MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class GroupTree:
    """The groups of one namespace that have a composite group above or below them."""

    groups: Mapping[str, PodGroup]  # with a parent, by key
    composites: Mapping[str, CompositeGroup]

    def resolved(self) -> tuple[PodGroup, ...]:
        """Each group with what its composite groups ask of it."""
        children = self._children()
        paths = {key: self._path(group) for key, group in self.groups.items()}
        made: dict[str, PodGroup] = {}
        for key, group in self.groups.items():
            path, invalid = paths[key]
            root = self.composites.get(path[-1]) if path else None
            invalid = invalid or (self._mixed(root, children) if root is not None else "")
            made[key] = replace(group, obstacle=invalid) if invalid else group
        for root in self.composites.values():
            if root.parent:
                continue
            below = self._leaves(root.key, children)
            if below and not any(made[key].obstacle for key in below):
                made.update((found.key, found) for found in self._placed(root, children))
        return tuple(made.values())

    def _children(self) -> dict[str, list[str]]:
        """The keys of the groups below each composite group, oldest first."""
        found: dict[str, list[str]] = {}
        nodes: Iterable[PodGroup | CompositeGroup] = (*self.groups.values(), *self.composites.values())
        for node in sorted(nodes, key=lambda member: (member.created_s, member.key)):
            if node.parent:
                found.setdefault(node.parent, []).append(node.key)
        return found

    def _path(self, group: PodGroup) -> tuple[list[str], str]:
        """The composite groups above it, nearest first, and what is wrong with them."""
        path: list[str] = []
        parent = group.parent
        while parent:
            if parent in path:
                return path, f"CompositePodGroup {parent} is above itself"
            above = self.composites.get(parent)
            if above is None:
                return path, f"CompositePodGroup {parent}, which it or a group above it names as parent, does not exist"
            path.append(parent)
            if len(path) >= MAX_DEPTH:
                return path, f"more than {MAX_DEPTH} levels of groups"
            parent = above.parent
        return path, ""

    def _mixed(self, root: CompositeGroup, children: Mapping[str, list[str]]) -> str:
        workloads = {root.workload}
        for key in self._below(root.key, children):
            workloads.add(self.groups[key].workload if key in self.groups else self.composites[key].workload)
        named = sorted(filter(None, workloads))
        if len(named) < 2:
            return ""
        return f"the groups below CompositePodGroup {root.key} are of several Workloads: {', '.join(named)}"

    def _below(self, key: str, children: Mapping[str, list[str]]) -> list[str]:
        """All groups below, of trees without a cycle."""
        found = list(children.get(key, ()))
        for child in found:
            found.extend(children.get(child, ()))
        return found

    def _leaves(self, key: str, children: Mapping[str, list[str]]) -> list[str]:
        return (
            [key] if key in self.groups else [member for member in self._below(key, children) if member in self.groups]
        )

    # ---- what a valid tree asks

    def _placed(self, root: CompositeGroup, children: Mapping[str, list[str]]) -> Iterable[PodGroup]:
        obstacles: dict[str, str] = {}
        bundles: dict[str, tuple[str, ...]] = {}  # leaf -> the gangs that must be satisfied with it
        self._core(root, children, bundles, obstacles)
        for key in self._leaves(root.key, children):
            group, path = self.groups[key], [self.composites[member] for member in self._path(self.groups[key])[0]]
            topology, inner_key, obstacle = self._topology(key, path, bundles)
            together = next((above.key for above in reversed(path) if above.all_together), "")
            bundle = bundles.get(key, ())
            notes = replace(
                group.notes,
                groups=bundle,
                mode=GangMode.STRICT if len(bundle) > 1 or topology is not None else group.notes.mode,
                topology=topology,
                match_policy=MatchPolicy.WAITING_AND_RUNNING if len(bundle) > 1 else group.notes.match_policy,
                wrong=(*group.notes.wrong, *(member for above in path for member in above.wrong)),
            )
            priority = next((above.priority for above in reversed(path) if above.priority is not None), group.priority)
            yield replace(
                group,
                notes=notes,
                inner_key=inner_key,
                obstacle=next((obstacles[above.key] for above in path if above.key in obstacles), "") or obstacle,
                priority=priority,
                preempts=group.preempts and all(above.preempts for above in path),
                disruption=Disruption.ALL if together else group.disruption,
                disrupted_with=tuple(self._leaves(together, children)) if together else group.disrupted_with,
            )

    def _core(
        self,
        node: CompositeGroup,
        children: Mapping[str, list[str]],
        bundles: dict[str, tuple[str, ...]],
        obstacles: dict[str, str],
    ) -> tuple[str, ...]:
        """The leaves that must have their minimum for the node to be satisfied; what each leaf needs is added to
        `bundles`.
        """
        cores: list[tuple[str, ...]] = []
        for key in children.get(node.key, ()):
            below = self.composites.get(key)
            cores.append((key,) if below is None else self._core(below, children, bundles, obstacles))
        if node.min_groups is None:
            return cores[0] if cores else ()
        if len(cores) < node.min_groups:
            obstacles[node.key] = f"CompositePodGroup {node.key} has {len(cores)} of {node.min_groups} child groups"
        core = tuple(key for member in cores[: node.min_groups] for key in member)
        for leaf in self._leaves(node.key, children):
            bundles[leaf] = tuple(dict.fromkeys((*bundles.get(leaf, ()), *core, leaf)))
        return core

    def _topology(
        self, key: str, path: list[CompositeGroup], bundles: Mapping[str, tuple[str, ...]]
    ) -> tuple[GangTopology | None, str, str]:
        """The topology of a leaf's bundle, the leaf's own key below that, and why it cannot be placed with them."""
        own = self.groups[key].notes.topology
        above = [member for member in path if member.topology_key]
        if len(above) > 1:
            return own, "", "topology keys on several levels of composite groups are not supported"
        if above and above[0].min_groups is None:
            return own, "", f"CompositePodGroup {above[0].key}: a topology key with the basic policy is not supported"
        if not above and len(bundles.get(key, ())) < 2:
            return own, "", ""
        inner = own.keys[-1] if own is not None else ""
        return GangTopology((above[0].topology_key,), True) if above else None, inner, ""
