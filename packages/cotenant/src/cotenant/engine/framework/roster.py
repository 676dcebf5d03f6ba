"""The plugins of one engine, by point, and for each pod only those that it needs.

A round judges thousands of pods, and most need no plugin at all: asking every plugin about every pod at every point
costs more than placing it. What a plugin skips depends on what makes pods alike, so the answer is kept for all of them;
pods that need the same plugins share one `Calls`, with the methods to call at each point.
Limits: pods with demands are asked about one by one.
"""

from __future__ import annotations

from collections.abc import Hashable

from cotenant.engine.framework.contracts import Evicting, Grouping
from cotenant.engine.framework.events import EventKind, helping
from cotenant.engine.framework.plugin import Plugin, overriding
from cotenant.model.cluster.demands import NO_DEMANDS, Demands
from cotenant.model.cluster.pod import Pod

_MAX_KEPT = 8192


class Calls:
    """What is called for pods that need these plugins: at each point, of those that have it."""

    __slots__ = (
        *(
            "allowed",
            "allowed_with",
            "permit",
            "plugins",
            "pod_arrived",
            "pod_left",
            "pod_updated",
            "post_bind",
            "post_filter",
        ),
        *("pre_bind", "pre_enqueue", "pre_filter", "queue_sort", "reserve", "sign", "unreserve", "withdraw"),
    )

    def __init__(self, plugins: tuple[Plugin, ...]) -> None:
        self.plugins = plugins
        self.pre_enqueue = overriding(plugins, "pre_enqueue")
        self.pre_filter = overriding(plugins, "pre_filter")
        self.post_filter = overriding(plugins, "post_filter")
        self.queue_sort = tuple(plugin.queue_sort for plugin in overriding(plugins, "queue_sort"))
        self.sign = tuple(plugin.sign for plugin in overriding(plugins, "sign"))
        self.permit = tuple(plugin.permit for plugin in overriding(plugins, "permit"))
        self.pre_bind = tuple(plugin.pre_bind for plugin in overriding(plugins, "pre_bind"))
        self.post_bind = tuple(plugin.post_bind for plugin in overriding(plugins, "post_bind"))
        self.pod_arrived = tuple(plugin.pod_arrived for plugin in overriding(plugins, "pod_arrived"))
        self.pod_left = tuple(plugin.pod_left for plugin in overriding(plugins, "pod_left"))
        self.pod_updated = tuple(plugin.pod_updated for plugin in overriding(plugins, "pod_updated"))
        # the others hear of it earlier, as node rules
        told = [plugin for plugin in plugins if not is_node_rule(plugin)]
        self.reserve = tuple(plugin.reserve for plugin in overriding(told, "reserve"))
        self.unreserve = tuple(plugin.unreserve for plugin in overriding(told, "unreserve"))
        self.withdraw = tuple(plugin.unreserve for plugin in overriding(self.pre_filter, "unreserve"))
        grouping = [plugin for plugin in plugins if isinstance(plugin, Grouping)]
        self.allowed_with = tuple(entry.allowed_with for entry in grouping)
        self.allowed = tuple(entry.allowed for entry in grouping)


class Roster:
    """The plugins of one engine, in order."""

    def __init__(self, plugins: tuple[Plugin, ...]) -> None:
        self.plugins = plugins
        self.turn = overriding(plugins, "turn")
        self.next_s = overriding(plugins, "next_s")
        self.bind = overriding(plugins, "bind")
        self.pre_filter = overriding(plugins, "pre_filter")
        self.pre_score = overriding(plugins, "pre_score")
        self.queueing_hint = overriding(plugins, "queueing_hint")
        self.node_changed = overriding(plugins, "node_changed")
        self.pod_ended = overriding(plugins, "pod_ended")
        self.evicting = tuple(plugin for plugin in plugins if isinstance(plugin, Evicting))
        self.grouping = tuple(plugin for plugin in plugins if isinstance(plugin, Grouping))
        self._events = {name: kinds for plugin in plugins for name, kinds in plugin.events.items()}
        self._calls: dict[tuple[Plugin, ...], Calls] = {}
        self._kept: dict[Hashable, Calls] = {}  # by what makes pods alike

    def calls(self, alike: Hashable, pod: Pod, demands: Demands) -> Calls:
        """What is called for a pod; equal for pods that are `alike`, where they have no demands."""
        if demands != NO_DEMANDS:
            return self._ask(pod, demands)
        found = self._kept.get(alike)
        if found is None:
            if len(self._kept) >= _MAX_KEPT:
                self._kept.clear()
            found = self._kept[alike] = self._ask(pod, demands)
        return found

    def helping(self, name: str) -> frozenset[EventKind]:
        """Events after which a refusal by this filter may not stand."""
        return self._events[name] if name in self._events else helping(name)

    def forget(self) -> None:
        """Ask again: a plugin skips other pods than before, or `alike` values are used anew."""
        self._kept.clear()

    def _ask(self, pod: Pod, demands: Demands) -> Calls:
        needed = tuple(plugin for plugin in self.plugins if not plugin.skips(pod, demands))
        found = self._calls.get(needed)
        if found is None:
            found = self._calls[needed] = Calls(needed)
        return found


def is_node_rule(plugin: Plugin) -> bool:
    """Whether the plugin judges nodes."""
    return bool(overriding((plugin,), "filter") or overriding((plugin,), "score"))
