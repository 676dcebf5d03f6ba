"""`cotenant node doctor`: what would be refused, fought over or missing on this node before an agent acts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, replace
from pathlib import Path

from cotenant.cli import tables
from cotenant.engine.node.doctor.checks import DoctorFinding, FindingSeverity, conflicts, findings
from cotenant.engine.node.doctor.found import NodeFound
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cpus.cpulist import format_cpus
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.group_names import best_effort_group
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.agent_settings.node_roots import with_roots_here
from cotenant.services.nodeview.doctor import examine

_UNKNOWN = "not known"


def doctor(path: Path | None, single: bool, checkpoint: Path | None, as_json: bool) -> int:
    """Print what was found and the findings. 1 where there is a conflict."""
    try:
        config = with_roots_here(AgentConfig() if path is None else read_config(path))
    except InvalidInput as error:
        raise error.of("--config") from None
    found = asyncio.run(examine(config, single=single, probes=True, checkpoint=checkpoint))
    settings = _settings(config, found, named=path is not None)
    every = findings(found, settings)
    against = conflicts(every)
    if as_json:
        answer = {"node": config.node, "found": _plain(found), "writable": settings.roots}
        print(json.dumps(answer | {"findings": [asdict(finding) for finding in every], "conflicts": len(against)}))
        return 1 if against else 0
    for line in _lines(found, settings):
        tables.print_folded(line)
    if every:
        tables.print_words(
            ("", "about", "finding"), [_row(finding) for finding in every], emphasised=(FindingSeverity.CONFLICT,)
        )
    tables.print_line(_verdict(every, config), strong=True)
    return 1 if against else 0


def _settings(config: AgentConfig, found: NodeFound, *, named: bool) -> AgentSettings:
    """Those of an agent that acts; without a configuration, on all best-effort work."""
    roots = config.writable if named else tuple(best_effort_group(root) for root in found.roots)
    return replace(config.settings(), mode=AgentMode.ACT, roots=roots)


def _row(finding: DoctorFinding) -> tuple[str, str, str]:
    return (
        finding.severity.value,
        finding.subject,
        f"{finding.text}. To do: {finding.to_do}" if finding.to_do else finding.text,
    )


def _lines(found: NodeFound, settings: AgentSettings) -> list[str]:
    facts = found.kubelet
    version = ".".join(map(str, facts.version)) if facts.version else _UNKNOWN
    roots = ", ".join(f"/{root}" for root in found.roots) or "none"
    keeper = found.keeper
    reserved = f", CPUs reserved by number {format_cpus(facts.reserved_cpus)}" if facts.reserved_cpus else ""
    return [
        f"cgroups {found.cgroups}; groups of kubelets: {roots}; systemd: {facts.systemd or 'not reached'}",
        f"kubelet {version}: CPU manager {facts.cpu_manager or _UNKNOWN}, topology manager "
        f"{facts.topology_manager or _UNKNOWN}, "
        f"memory manager {facts.memory_manager or _UNKNOWN}{reserved}",
        "keeper: this agent itself"
        if keeper is None
        else "keeper: no answer"
        if keeper.problem
        else f"keeper: writes below {', '.join(f'/{root}' for root in keeper.roots)}",
        f"would be written: {', '.join(f'/{root}' for root in settings.roots) or 'nothing'}, and below",
    ]


def _verdict(every: tuple[DoctorFinding, ...], config: AgentConfig) -> str:
    counts = {severity: sum(finding.severity is severity for finding in every) for severity in FindingSeverity}
    said = ", ".join(f"{count} {severity}{'s' if count != 1 else ''}" for severity, count in counts.items())
    if not counts[FindingSeverity.CONFLICT]:
        return f"{said}: an agent may act here"
    if config.act_despite_conflicts:
        return f"{said}: an agent acts here despite them (act_despite_conflicts)"
    return f"{said}: an agent in mode act starts as observe here"


def _plain(found: NodeFound) -> object:
    return json.loads(json.dumps(asdict(found), default=sorted))
