"""Plugins of installed packages, by their entry points.

Only those that are named are loaded: an installed package alone changes no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import entry_points

from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.registry import PluginRegistry
from cotenant.model.errors import InvalidInput

GROUP = "cotenant.scheduler_plugins"


def others_plugins(names: Sequence[str]) -> tuple[Plugin, ...]:
    """The plugins of these entry points, each made without arguments. Raises `InvalidInput`."""
    if not names:
        return ()
    known = {point.name: point for point in entry_points(group=GROUP)}
    made: list[Plugin] = []
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "none is installed"
            raise InvalidInput("--plugin", name, f"an entry point of the group {GROUP}: {there}")
        try:
            found = known[name].load()()
        except Exception as error:  # whatever a stranger's module raises when it is loaded
            raise InvalidInput("--plugin", name, "a plugin that can be made without arguments", str(error)) from error
        if not isinstance(found, Plugin):
            raise InvalidInput("--plugin", name, "a class derived from cotenant.engine.framework.plugin.Plugin")
        made.append(found)
    PluginRegistry(more=tuple(made))  # names are checked
    return tuple(made)
