"""The doctor's check of an agent that is to act, at its start.

An agent that acts beside another writer harms both, and nobody looks at a node before a rollout reaches it. The same
check as `cotenant node doctor`; with a conflict the agent starts as observe and says so, unless its configuration says
that it acts all the same.
Limits: it is made once; what changes later is seen by the keeper, which refuses, and by the engine, which stands off.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from cotenant.engine.node.doctor.checks import DoctorFinding, FindingSeverity, conflicts, findings
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import CotenantError
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.nodeview.doctor import examine

_log = logging.getLogger(__name__)


async def checked(config: AgentConfig, *, single: bool) -> tuple[AgentConfig, tuple[DoctorFinding, ...]]:
    """The configuration to start with, and the conflicts that were found; in the other modes nothing is looked for."""
    if config.mode is not AgentMode.ACT:
        return config, ()
    try:
        every = findings(await examine(config, single=single), config.settings())
    except (CotenantError, OSError) as error:
        _log.warning("the node could not be checked before acting: %s", error)
        return config, ()
    for finding in every:
        if finding.severity is not FindingSeverity.NOTE:
            _log.warning(
                "%s: %s: %s%s",
                finding.severity,
                finding.subject,
                finding.text,
                f"; {finding.to_do}" if finding.to_do else "",
            )
    found = conflicts(every)
    if not found or config.act_despite_conflicts:
        return config, found
    _log.error(
        "this agent starts in mode observe, not act, and holds nothing (conflicts: %d); `cotenant node doctor` lists "
        "them, "
        "act_despite_conflicts: true acts all the same",
        len(found),
    )
    return replace(config, mode=AgentMode.OBSERVE), found
