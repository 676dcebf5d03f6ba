"""The doctor's findings: what would be refused, fought over or missing if an agent with these settings acted on this
node.

An agent that acts beside other writers can undo their work, have its own undone, or do nothing at all, and each shows
only later, on some pods. Pure checks over what was found, by the owner's table. A conflict is what makes acting
pointless or harmful: another writer of the same knobs, limits that would not stand, no group that may be written. A
warning is a policy that is on and does less than it says. A note is what is left to its owner by design, or would help.
Limits: knobs are not tried; what an administrator's own tools write is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cotenant.engine.node.doctor.found import NodeFound
from cotenant.engine.node.doctor.policy_knobs import POLICY_KNOBS, PolicyKnobs
from cotenant.engine.node.knobs.plan import within
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import KubernetesQoS
from cotenant.model.kubelet.group_names import best_effort_group
from cotenant.model.kubelet.groups import Driver, GroupKind, kind_of
from cotenant.model.kubelet.ruling import kinds, ruling_of
from cotenant.model.machine.knob import Knob


class FindingSeverity(StrEnum):
    """How much a finding matters, the worst first."""

    CONFLICT = "conflict"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One finding: a sentence, and what to do; "" where nothing has to be done."""

    severity: FindingSeverity
    subject: str
    text: str
    to_do: str = ""


def findings(found: NodeFound, settings: AgentSettings) -> tuple[DoctorFinding, ...]:
    """All findings, the worst first."""
    every = (
        *_writers(found, settings),
        *_groups(found, settings),
        *_keeper(found, settings),
        *_standing(found),
        *_kubelet(found, settings),
        *_owned(found, settings),
        *_services(found, settings),
        *_holdings(found),
        *_kernel(found, settings),
    )
    return tuple(sorted(every, key=lambda finding: list(FindingSeverity).index(finding.severity)))


def conflicts(every: Iterable[DoctorFinding]) -> tuple[DoctorFinding, ...]:
    """Those that forbid acting."""
    return tuple(finding for finding in every if finding.severity is FindingSeverity.CONFLICT)


def _writers(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    for writer in found.writers:
        touched = [
            root
            for root in settings.roots
            if not writer.groups or any(within(root, (other,)) or within(other, (root,)) for other in writer.groups)
        ]
        if not settings.roots or touched:
            below = f" below {_paths(touched)}" if touched else ""
            if not writer.is_certain:
                text = f"{writer.what} ({writer.where}) may write knobs of groups{below}: this account may not read it"
                yield DoctorFinding(
                    FindingSeverity.WARNING, "other writers", text, "run the doctor as root on the host"
                )
                continue
            text = f"{writer.what} ({writer.where}) writes knobs of groups{below}: each would undo the other's values"
            yield DoctorFinding(FindingSeverity.CONFLICT, "other writers", text, "end it on this node, or observe only")


def _groups(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    if len(found.roots) > 1:
        text = (
            f"there are {len(found.roots)} groups of kubelets, {_paths(found.roots)}: one may be left from another "
            "driver"
        )
        yield DoctorFinding(FindingSeverity.WARNING, "groups", text, "remove the one that the kubelet does not use")
    strange = [entry for entry in found.absent if kind_of(entry) is not None]
    best_effort = [best_effort_group(root) for root in found.roots]
    if strange and found.roots:
        text = f"`writable` names {_paths(strange)}, which no kubelet here has; its groups are {_paths(found.roots)}"
        severity = FindingSeverity.CONFLICT if len(strange) == len(settings.roots) else FindingSeverity.WARNING
        to_do = f"name {_paths(best_effort)} for best-effort work, or set kubelet_groups: best-effort"
        yield DoctorFinding(severity, "groups", text, to_do)
    for entry in found.absent:
        if entry not in strange or not found.roots:
            yield DoctorFinding(FindingSeverity.NOTE, "groups", f"/{entry} does not exist (yet): it is waited for")
    if not settings.roots:
        name = f"for best-effort work: {_paths(best_effort)}" if best_effort else "the groups of best-effort work"
        yield DoctorFinding(
            FindingSeverity.WARNING, "groups", "`writable` names no group: no knob may be written", f"name {name}"
        )


def _keeper(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    keeper = found.keeper
    if keeper is None:
        return
    if keeper.problem:
        yield DoctorFinding(
            FindingSeverity.WARNING, "keeper", keeper.problem, "start `cotenant keeper`, or the agent with --single"
        )
        return
    outside = [root for root in settings.roots if not within(root, keeper.roots)]
    if outside:
        text = f"the keeper may write below {_paths(keeper.roots)}, not {_paths(outside)}"
        severity = FindingSeverity.CONFLICT if len(outside) == len(settings.roots) else FindingSeverity.WARNING
        yield DoctorFinding(severity, "keeper", text, "start it with --root for each group of `writable`")
    for policy, knobs in _used(settings):
        lacking = [knob for knob in knobs if knob not in keeper.knobs]
        if lacking:
            text = f"the keeper does not write {_names(lacking)}, which the policy {policy} wants"
            yield DoctorFinding(
                FindingSeverity.WARNING, "keeper", text, "start it with --knob for each, or without --knob"
            )


def _standing(found: NodeFound) -> Iterator[DoctorFinding]:
    """Whether limits stay in force beside systemd."""
    beside_systemd = found.kubelet.cgroup_version == 2 and any(_driver(root) is Driver.SYSTEMD for root in found.roots)
    if beside_systemd and found.kubelet.systemd is None:
        text = "systemd owns the kubelet's groups and cannot be reached: it puts limits back when a pod starts; "
        if found.watch:
            yield DoctorFinding(
                FindingSeverity.CONFLICT,
                "systemd",
                text + "what it writes is not noticed at once either",
                f"let the keeper reach the system bus (--bus), or have {found.watch}",
            )
        else:
            yield DoctorFinding(
                FindingSeverity.WARNING,
                "systemd",
                text + "they are written again within 0.1 s",
                "let the keeper reach the system bus (--bus)",
            )
    elif found.watch:
        text = "what others write is looked for each second, not noticed at once"
        yield DoctorFinding(FindingSeverity.WARNING, "watch", text, f"have {found.watch}")


def _kubelet(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    facts = found.kubelet
    if not found.roots:
        return
    if not facts.cpu_manager:
        yield DoctorFinding(
            FindingSeverity.NOTE,
            "kubelet",
            "its CPU manager's policy is not known and counts as none",
            "let the keeper read /var/lib/kubelet, or set cluster.kubelet_configz",
        )
    elif facts.is_static:
        is_wanted = settings.policies.own_cpus is not None
        severity = FindingSeverity.WARNING if is_wanted else FindingSeverity.NOTE
        to_do = "switch own_cpus off here, or the kubelet's policy to none" if is_wanted else ""
        yield DoctorFinding(severity, "kubelet", facts.sentence, to_do)
    if facts.version is None:
        text = "its version is not known: it counts as one that resizes pods in place (1.33)"
        yield DoctorFinding(FindingSeverity.NOTE, "kubelet", text)


def _owned(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    """Knobs of policies that are on, and which the owner's table leaves to others."""
    drivers = {_driver(root) for root in found.roots}
    for part in POLICY_KNOBS:
        if getattr(settings.policies, part.policy) is None:
            continue
        refused: dict[str, list[tuple[Knob, GroupKind]]] = {}
        held = 0
        for knob, kind in _cells(part, drivers):
            if part.policy == "own_cpus" and found.kubelet.is_static:
                continue  # said of the kubelet
            ruled = ruling_of(knob, kind, found.kubelet)
            held += not ruled.is_refused
            if ruled.is_refused:
                refused.setdefault(ruled.reason, []).append((knob, kind))
        for reason, cells in refused.items():
            knobs = _names(dict.fromkeys(knob for knob, _ in cells))
            levels = ", ".join(dict.fromkeys(str(kind.level) for _, kind in cells))
            text = f"{knobs} of {part.what} ({levels}) is left to its owner: {reason}"
            severity = FindingSeverity.NOTE if held else FindingSeverity.WARNING
            yield DoctorFinding(severity, part.policy, text, "" if held else f"switch {part.policy} off here")


def _services(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    """Policies for services that may write best-effort groups only."""
    if not found.roots or not settings.roots:
        return
    below = tuple(best_effort_group(root) for root in found.roots)
    if not all(within(root, below) for root in settings.roots):
        return
    of_services = {
        part.policy
        for part in POLICY_KNOBS
        if KubernetesQoS.GUARANTEED in part.qos and getattr(settings.policies, part.policy) is not None
    }
    of_services -= {"own_cpus"} if found.kubelet.is_static else set()
    if of_services:
        text = (
            f"{', '.join(sorted(of_services))}: on, but `writable` has best-effort groups only: nothing is written "
            "for services"
        )
        to_do = (
            f"add {_paths(found.roots)} to `writable` and to the keeper's roots (kubelet_groups: all), or switch "
            "them off"
        )
        yield DoctorFinding(FindingSeverity.WARNING, "services", text, to_do)


def _holdings(found: NodeFound) -> Iterator[DoctorFinding]:
    """Whose word stands for what pods hold."""
    if found.roots and found.seal:
        to_do = "give the scheduler a key (--seal) and the agent its certificate (seal_certificate)"
        yield DoctorFinding(FindingSeverity.NOTE, "holdings", found.seal, to_do)


def _kernel(found: NodeFound, settings: AgentSettings) -> Iterator[DoctorFinding]:
    needs = dict(found.unsupported)
    lacking: dict[str, dict[Knob, None]] = {}
    for _, knobs in _used(settings):
        for knob in knobs:
            if knob in needs:
                lacking.setdefault(needs[knob], {})[knob] = None
    for need, names in lacking.items():
        text = f"this machine has no {_names(names)}, which a policy that is on would write"
        yield DoctorFinding(FindingSeverity.WARNING, "kernel", text, f"provide {need}")
    for text in found.cards:
        yield DoctorFinding(FindingSeverity.WARNING, "GPUs", text, "leave the card out of recovery.cards, or the rung")
    for what, need in (
        ("pressure is not measured, so the guard judges by run delay alone", found.pressure),
        ("pressure triggers have windows of 2 s at least", found.short_windows),
        ("waits for a CPU are not told by cause (no eBPF probe)", found.run_queue),
        ("Control Zones have cgroup weights here and no kernel scheduler", found.schedulers),
        ("Control Zones have no kernel scheduler for one group here", found.sub_schedulers),
        ("containers get their knobs within a period after they start, not before", found.runtime_hook),
    ):
        if need:
            yield DoctorFinding(FindingSeverity.NOTE, "kernel", what, f"provide {need}")


def _used(settings: AgentSettings) -> Iterator[tuple[str, tuple[Knob, ...]]]:
    for part in POLICY_KNOBS:
        if getattr(settings.policies, part.policy) is not None:
            yield part.policy, part.knobs


def _cells(part: PolicyKnobs, drivers: set[Driver]) -> Iterator[tuple[Knob, GroupKind]]:
    for kind in kinds():
        if kind.driver in drivers and part.concerns(kind):
            yield from ((knob, kind) for knob in part.knobs)


def _driver(root: str) -> Driver:
    return Driver.SYSTEMD if root.endswith(".slice") else Driver.CGROUPFS


def _paths(groups: Iterable[str]) -> str:
    return ", ".join(f"/{group}" for group in groups)


def _names(knobs: Iterable[Knob]) -> str:
    return ", ".join(str(knob) for knob in knobs)
