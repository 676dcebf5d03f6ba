"""PreFilter: which pods every plugin admits now.

Each plugin is given the pods that need it and that those before it admitted. What admitted a pod that a later plugin
refuses takes it back (`Plugin.unreserve`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cotenant.engine.framework.plugin import Plugin, PodRefused
from cotenant.engine.framework.pod_state import PodInfo
from cotenant.engine.framework.roster import Roster


def refusals(roster: Roster, entries: Sequence[PodInfo], now_s: float) -> list[Mapping[int, PodRefused]]:
    """For each plugin that refuses pods its refusals, by position in `entries`."""
    needed = {entry.calls for entry in entries}
    if not any(calls.pre_filter for calls in needed):
        return []
    before: list[Plugin] = []
    found: list[Mapping[int, PodRefused]] = []
    left = list(range(len(entries)))
    for plugin in roster.pre_filter:
        is_for_all = all(plugin in calls.pre_filter for calls in needed)
        own = left if is_for_all else [at for at in left if plugin in entries[at].calls.pre_filter]
        refused = plugin.pre_filter([entries[at] for at in own], now_s) if own else {}
        if refused:
            found.append({own[position]: why for position, why in refused.items()})
            for at in found[-1]:
                withdraw(entries[at], before)
            left = [at for at in left if at not in found[-1]]
        before.append(plugin)
    return found


def withdraw(entry: PodInfo, plugins: Sequence[Plugin]) -> None:
    """These plugins admitted a pod that is refused after all."""
    for plugin in plugins:
        if plugin in entry.calls.pre_filter:
            plugin.unreserve(entry)
