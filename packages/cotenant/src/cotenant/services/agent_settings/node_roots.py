"""The groups that this node's agent may act on: kubelet's, where the configuration leaves finding them to the node, and
whether those that are named exist.

A root that no group of the node has is a valid configuration under which nothing is ever held, and nobody is told. With
`kubelet_groups` the agent looks into its own tree; what stays missing for `PATIENCE_S` is a sentence in the log, in
`/readyz` (503) and in the gaps.
Limits: a kubelet that changes its driver empties its node first, so a found root is kept until the restart.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.kubelet.roots import WANTED, roots_here, writable_below
from cotenant.model.kubelet.group_names import best_effort_group
from cotenant.services.agent_settings.config import AgentConfig

PATIENCE_S = 30.0
_log = logging.getLogger(__name__)


def with_roots(config: AgentConfig, roots: Sequence[str]) -> AgentConfig:
    """The configuration with kubelet's groups in it; unchanged where it does not ask for them, or there are none."""
    if config.kubelet_groups is None or not roots:
        return config
    found = writable_below(roots, config.kubelet_groups)
    group = config.best_effort_group
    if group is None and len(roots) == 1:
        group = best_effort_group(roots[0])
    return replace(config, writable=tuple(dict.fromkeys((*config.writable, *found))), best_effort_group=group)


def with_roots_here(config: AgentConfig) -> AgentConfig:
    """The same with the roots of this machine. Raises `Unsupported` where it has no cgroups."""
    if config.kubelet_groups is None:
        return config
    return with_roots(config, roots_here(detect(str(config.cgroup_root))))


@dataclass(slots=True)
class RootCheck:
    """Whether there is anything to act on. `exists`: whether a group does."""

    exists: Callable[[str], bool]
    said: str = ""  # what is wrong, "" where nothing is, or not yet for long enough
    _since_s: float | None = None

    def judge(self, config: AgentConfig, roots: Sequence[str] | None, now_s: float) -> None:
        """Judge the groups as they are now. `roots`: kubelet's; None where its groups are no source of pods."""
        wrong = self._wrong(config, roots)
        if not wrong:
            if self.said:
                _log.info("the groups to act on are there now")
            self._since_s, self.said = None, ""
            return
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s >= PATIENCE_S and wrong != self.said:
            self.said = wrong
            _log.error("%s", wrong)

    def _wrong(self, config: AgentConfig, roots: Sequence[str] | None) -> str:
        is_kubelets = roots is not None and not config.groups  # with groups of its own it has something to do
        if not roots and (is_kubelets or config.kubelet_groups is not None):
            return f"no pods can be found: {config.cgroup_root} has no {WANTED}"
        if config.writable and not any(self.exists(name) for name in config.writable):
            here = ", ".join(best_effort_group(root) for root in roots or ())
            hint = f"; kubelet's here is {here}, which `kubelet_groups: best-effort` finds" if here else ""
            return (
                f"nothing can be held: {config.cgroup_root} has no group {', '.join(config.writable)} "
                f"(`writable`){hint}"
            )
        return ""
