"""A zone as its author defines it: the plain file, and the spec of a ControlZone.

A zone writes kernel settings of the groups that its file names, so a wrong file must be one clear line before anything
is written. One frozen value read from YAML, with groups named relative to the cgroup tree's root as everywhere here; a
file can name no path outside that tree. Groups are listed by name, or found: pods of this node that one of
`applications` selects, each with the row of the first of `rules` that its labels match.
Limits: selectors are equality of labels and a namespace; a sub-scheduler needs listed groups, because it is attached to
the group that contains them all.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cotenant.engine.zones.zone import Zone, ZoneLimits
from cotenant.model.errors import InvalidInput
from cotenant.model.zones.apart import MOST_RULES, ApartRule, RuleTime, parties_of
from cotenant.model.zones.setting import USUAL_MODES, Backend, ExclusiveCpus, ZoneMode, ZoneSetting
from cotenant.model.zones.table import ZoneRow
from cotenant.policy.zone.deciding import ZoneConfig
from cotenant.services.zones.groups import GroupClass, ZoneGroup, ZoneThreads, row_of
from cotenant.services.zones.pods import NAME, ZonePod, check_pods, is_whole
from cotenant.services.zones.vm_definition import VmDefinition

MAX_GROUPS = 256
MAX_SELECTORS = 64
MAX_LABELS = 16
LONGEST_LABEL = 317  # a prefix of 253, a slash and a name of 63 characters
SHORTEST_PERIOD_MS, LONGEST_PERIOD_MS = 100, 10_000


class BackendChoice(StrEnum):
    """Which back ends a zone may use."""

    WEIGHTS = "weights"  # as good as a kernel scheduler for light services, on any host
    SUB = "sub"  # a scheduler for the zone's own cgroup
    ROOT = "root"
    AUTO = "auto"  # sub, root or weights: the first that this host can


@dataclass(frozen=True, slots=True)
class ZoneApplication:
    """Pods of the zone: those of this namespace with all of these labels. "": of every namespace."""

    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_labels(self.labels)
        if not self.namespace and not self.labels:
            raise InvalidInput("labels", "", "a namespace or labels", "an application without either selects every pod")

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a pod belongs to it."""
        return self.namespace in ("", namespace) and _match(self.labels, labels)


@dataclass(frozen=True, slots=True)
class ClassRule:
    """The row of pods with all of these labels; without labels, of every pod. Fields as of `ZoneGroup`."""

    kind: GroupClass
    labels: Mapping[str, str] = field(default_factory=dict)
    late_ms: float = 0.0
    slice_us: int = 0
    weight: int = 0
    threads: tuple[ZoneThreads, ...] = ()
    party: str = ""

    def __post_init__(self) -> None:
        _check_labels(self.labels)
        self.row()

    def row(self) -> ZoneRow:
        """The row of the policy table."""
        return row_of(self.kind, self.weight, self.slice_us, self.late_ms, self.threads, self.party)


def _match(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _check_labels(labels: Mapping[str, str]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidInput("labels", len(labels), f"at most {MAX_LABELS} labels")
    for text in (*labels, *labels.values()):
        if len(text) > LONGEST_LABEL:
            raise InvalidInput("labels", text, f"at most {LONGEST_LABEL} characters")


@dataclass(frozen=True, slots=True)
class ZoneDefinition:
    """One zone. `start`: the scheduler that the sub and root back ends start with; `modes`: those that they may
    switch to, and `start` where they are the usual ones; `exclusive`: the CPUs of services under the exclusive one;
    `apart`: what never runs at once under the apart one, which is the only one unless all rules are for late services;
    `nodes`: where it runs, empty: everywhere; `vm`: in a virtual machine, whose groups these are; `pods`: what it
    starts there, each a group of its name.
    """

    zone: str
    groups: tuple[ZoneGroup, ...] = ()
    applications: tuple[ZoneApplication, ...] = ()
    rules: tuple[ClassRule, ...] = ()
    nodes: tuple[str, ...] = ()
    vm: VmDefinition | None = None
    pods: tuple[ZonePod, ...] = ()
    backend: BackendChoice = BackendChoice.WEIGHTS
    start: ZoneMode = ZoneMode.WEIGHTED
    modes: tuple[ZoneMode, ...] = USUAL_MODES
    exclusive: ExclusiveCpus = field(default_factory=ExclusiveCpus)
    apart: tuple[ApartRule, ...] = ()
    period_ms: int = 1000
    policy: ZoneConfig = field(default_factory=ZoneConfig)
    limits: ZoneLimits = field(default_factory=ZoneLimits)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.zone):
            raise InvalidInput("zone", self.zone, "1 to 40 of a-z, 0-9 and -, as in shop-web")
        if len(self.groups) > MAX_GROUPS or not (self.groups or self.applications or self.pods):
            raise InvalidInput("groups", len(self.groups), f"1 to {MAX_GROUPS} groups, or applications, or pods")
        if self.pods and self.vm is None:
            raise InvalidInput("pods", len(self.pods), "none without vm", "a host's own containers are its runtime's")
        check_pods(self.pods)
        if self.pods and self.vm is not None and any(map(is_whole, self.vm.host_paths)):
            raise InvalidInput("vm.host_paths", "/", "paths below it in a zone with pods, whose images need a place")
        for name, selectors in (("applications", self.applications), ("rules", self.rules)):
            if len(selectors) > MAX_SELECTORS:
                raise InvalidInput(name, len(selectors), f"at most {MAX_SELECTORS}")
        if bool(self.applications) != bool(self.rules):
            missing = "rules" if self.applications else "applications"
            expected = (
                "a rule that gives their pods a class" if self.applications else "the pods that the rules are for"
            )
            raise InvalidInput(missing, "none", expected)
        names = [group.group for group in (*self.groups, *(pod.group() for pod in self.pods))]
        for name in names:
            if (
                any(name == other or name.startswith(f"{other}/") for other in set(names) - {name})
                or names.count(name) > 1
            ):
                raise InvalidInput("groups", name, "groups that are not one another's and not listed twice")
        self._check_apart()
        if self.start not in self.modes and self.modes == USUAL_MODES:
            object.__setattr__(self, "modes", (*USUAL_MODES, self.start))
        if self.start not in self.modes:
            raise InvalidInput("start", self.start.value, f"one of modes: {', '.join(self.modes) or 'none'}")
        if self.vm is not None and (self.applications or self.backend is BackendChoice.SUB):
            raise InvalidInput(
                "vm", "with applications or backend sub", "listed groups, and backend weights, root or auto, in a guest"
            )
        if self.vm is not None and ZoneMode.EXCLUSIVE in self.modes and self.vm.cpus < 2:
            raise InvalidInput("vm.cpus", self.vm.cpus, "2 or more with exclusive in modes")
        if self.vm is not None and ZoneMode.SIBLINGS in self.modes:
            raise InvalidInput("modes", "siblings", "none in a guest, whose CPUs are not threads of cores")
        threads = [group.threads for group in self.groups]
        threads += [rule.threads for rule in self.rules]
        threads += [pod.threads for pod in self.pods]
        if self.backend is BackendChoice.WEIGHTS and any(threads):
            raise InvalidInput("threads", "with backend weights", "backend auto, root or sub", "weights are a group's")
        if self.backend is BackendChoice.SUB and self.applications:
            raise InvalidInput(
                "applications",
                len(self.applications),
                "none with backend sub",
                "list its groups, or take root, weights or auto",
            )
        if self.backend is BackendChoice.SUB and not self.common_group:
            raise InvalidInput(
                "groups", ", ".join(names), "groups below one common group, which the sub-scheduler is attached to"
            )
        if not SHORTEST_PERIOD_MS <= self.period_ms <= LONGEST_PERIOD_MS:
            raise InvalidInput("period_ms", self.period_ms, f"{SHORTEST_PERIOD_MS} to {LONGEST_PERIOD_MS}")

    def _check_apart(self) -> None:
        """Rules without a scheduler that keeps them would be held by nothing, and a scheduler without rules does
        nothing.
        """
        if not self.apart:
            if ZoneMode.APART in (*self.modes, self.start):
                raise InvalidInput("modes", "apart", "rules in the field apart", "apart keeps what they say")
            return
        if len(self.apart) > MOST_RULES:
            raise InvalidInput("apart", len(self.apart), f"at most {MOST_RULES} rules")
        named = {group.party for group in self.groups} | {rule.party for rule in self.rules}
        for party in parties_of(self.apart):
            if party not in named:
                raise InvalidInput("apart", party, "the party of a group or a rule")
        if self.vm is not None or self.backend not in (BackendChoice.ROOT, BackendChoice.SUB):
            where = "in a guest" if self.vm is not None else self.backend.value
            raise InvalidInput("apart", f"with backend {where}", "backend root or sub", "weights keep no rule")
        if self.modes == USUAL_MODES:
            object.__setattr__(self, "modes", (ZoneMode.APART,))
            object.__setattr__(self, "start", ZoneMode.APART)
        if ZoneMode.APART not in self.modes:
            raise InvalidInput("modes", ", ".join(self.modes), "apart among them, for the rules")
        if self.modes != (ZoneMode.APART,) and any(rule.when is RuleTime.ALWAYS for rule in self.apart):
            raise InvalidInput("modes", ", ".join(self.modes), "apart alone where a rule always holds")

    @property
    def common_group(self) -> str:
        """The group that a sub-scheduler is attached to: the closest one that contains all of the zone's; the group
        itself where it is the only one. Empty: none but the tree's root, or pods that are found by labels.
        """
        if self.applications:
            return ""
        return os.path.commonpath([group.group for group in self.groups])

    def ladder(self, root: bool, sub: bool = False) -> tuple[ZoneSetting, ...]:
        """The settings to start with, best first. `root`, `sub`: whether this host can load schedulers for the
        machine, for one cgroup.
        """
        found = []
        if self.backend is BackendChoice.SUB or (self.backend is BackendChoice.AUTO and sub and self.common_group):
            found.append(ZoneSetting(Backend.SUB, self.start))
        if self.backend is BackendChoice.ROOT or (self.backend is BackendChoice.AUTO and root):
            found.append(ZoneSetting(Backend.ROOT, self.start))
        if self.backend in (BackendChoice.WEIGHTS, BackendChoice.AUTO):
            found.append(ZoneSetting(Backend.WEIGHTS))
        return tuple(found)

    def rows(self) -> dict[str, ZoneRow]:
        """The rows of the listed groups and the pods."""
        return {group.group: group.row() for group in (*self.groups, *(pod.group() for pod in self.pods))}

    @property
    def reads_host_files(self) -> bool:
        """Whether it names files of this host, which its guest's root would read as this host's root."""
        vm = self.vm
        volumes = any(volume.host for pod in self.pods for volume in pod.volumes)
        return vm is not None and bool(self.pods or vm.host_paths or vm.kernel.file or volumes)

    def rule_for(self, namespace: str, labels: Mapping[str, str]) -> ClassRule | None:
        """The rule of a pod; None where no application selects it or no rule matches."""
        if not any(application.selects(namespace, labels) for application in self.applications):
            return None
        return next((rule for rule in self.rules if _match(rule.labels, labels)), None)

    def machine(self, root: bool, sub: bool = False) -> Zone:
        """The zone's engine. `root`, `sub`: as `ladder`."""
        return Zone(
            self.zone,
            self.rows(),
            self.ladder(root, sub),
            self.modes,
            self.policy,
            self.limits,
            may_be_empty=bool(self.applications),
        )


def setting_of(text: str, current: ZoneSetting) -> ZoneSetting:
    """A setting as a user writes it: `weights`, `root/latency`, or a mode alone, on the back end that runs. Raises
    `InvalidInput`.
    """
    expected = "weights, a mode (latency, throughput, weighted, exclusive, siblings, apart), or root/MODE or sub/MODE"
    backend, slash, mode = text.partition("/")
    try:
        if slash:
            return ZoneSetting(Backend(backend), ZoneMode(mode))
        if text in set(ZoneMode):
            loads = current.backend in (Backend.SUB, Backend.ROOT)
            if not loads:
                raise InvalidInput(
                    "setting", text, f"root/{text} or sub/{text}", f"the zone runs {current}, which has no modes"
                )
            return ZoneSetting(current.backend, ZoneMode(text))
        return ZoneSetting(Backend(text))
    except ValueError:
        raise InvalidInput("setting", text, expected) from None
