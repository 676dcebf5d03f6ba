"""What of a configuration that was read again takes effect without a restart."""

from __future__ import annotations

import logging
from dataclasses import replace

from cotenant.engine.node.mode import AgentMode
from cotenant.services.agent_settings.config import AgentConfig

FIXED = (  # changed by a restart only
    "node",
    "act_despite_conflicts",
    "cgroup_root",
    "resctrl_root",
    "listen",
    "insecure",
    "keeper",
    "state_dir",
    "cluster",
    "sources",
    "reports",
    "traces",
    "credit",
    "pressure",
    "probe",
    "bursts",
    "runtime_hook",
    "plain_eviction",
)
_log = logging.getLogger(__name__)


def changeable(requested: AgentConfig, current: AgentConfig, started: AgentMode) -> AgentConfig:
    """The requested configuration, with what only a restart changes as it is; that is logged. `started`: the mode in
    which the process began; beside it only observing is possible.
    """
    for name in FIXED:
        if getattr(requested, name) != getattr(current, name):
            _log.warning("%s changes only with a restart", name)
    if requested.mode not in (started, AgentMode.OBSERVE):
        _log.warning("mode changes from %s to %s only with a restart", started, requested.mode)
        requested = replace(requested, mode=current.mode)
    return replace(requested, **{name: getattr(current, name) for name in FIXED})
