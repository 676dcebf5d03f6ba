"""The plugins and node rules of one engine, in the order in which they are called.

Gangs, quotas, reservations, CPUs, devices, claims, load and predicted use each have facts of their own, which the
process must report to them. One value with each by its name and type: the process calls them directly, the engine calls
them as `Plugin` and `NodeRules`. Plugins of others are given as `more`, come last, and need no other place
(docs/recipes/plugin.md).
Limits: one of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

from cotenant.engine.framework.node_rules import NodeRules
from cotenant.engine.framework.one_inventory import connect
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.framework.plugin_rules import PluginRules
from cotenant.engine.framework.roster import is_node_rule
from cotenant.engine.plugins.extenders.plugin import Extenders
from cotenant.engine.plugins.gangs.plugin import Gangs
from cotenant.engine.plugins.neighbours.plugin import DiskNeighbours
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.reservations.plugin import Reservations
from cotenant.engine.plugins.resizes.plugin import DeferredResizes
from cotenant.engine.plugins.stays.plugin import LentForStay
from cotenant.engine.rules.claims.gate import ClaimGate
from cotenant.engine.rules.claims.rules import ClaimRules
from cotenant.engine.rules.cpus.rules import Cpus
from cotenant.engine.rules.devices.gate import DeviceGate
from cotenant.engine.rules.devices.rules import DeviceRules
from cotenant.engine.rules.load.plugin import LoadPlugin
from cotenant.engine.rules.load.rules import LoadAware
from cotenant.engine.rules.use.plugin import PredictedUsePlugin
from cotenant.engine.rules.use.rules import PredictedUse
from cotenant.model.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class PluginRegistry:
    """The members; each starts empty and neutral."""

    gangs: Gangs = field(default_factory=Gangs)
    cpus: Cpus = field(default_factory=Cpus)
    devices: DeviceRules = field(default_factory=DeviceRules)
    claims: ClaimRules = field(default_factory=ClaimRules)
    quotas: Quotas = field(default_factory=Quotas)
    reservations: Reservations = field(default_factory=Reservations)
    load_aware: LoadAware = field(default_factory=LoadAware)  # off without settings
    predicted_use: PredictedUse = field(default_factory=PredictedUse)  # off without settings
    lent_for_stay: LentForStay = field(default_factory=LentForStay)  # sleeps until a node says what holds for longer
    neighbours: DiskNeighbours = field(default_factory=DiskNeighbours)  # sleeps until a profile says a demand for disks
    deferred_resizes: DeferredResizes = field(default_factory=DeferredResizes)  # off
    extenders: Extenders = field(default_factory=Extenders)  # none is asked
    more: tuple[Plugin, ...] = ()

    def __post_init__(self) -> None:
        """Connect the rules that may know the same devices. Raises `InvalidInput` for a plugin of others without a name
        of its own.
        """
        connect(self.devices.nodes.shared, self.claims.facts.shared)
        self.claims.extended.is_classic = self.devices.judges
        names = [entry.name for entry in self.in_order()]
        for plugin in self.more:
            if not plugin.name or names.count(plugin.name) > 1:
                expected = "a name that no other plugin has"
                raise InvalidInput("name of a plugin", plugin.name, expected, f"set `name` in {type(plugin).__name__}")

    def capture(self) -> Callable[[], PluginRegistry]:
        """A maker of members with the same facts and no pods, for a copy of the engine; it reads nothing of these
        members later.
        """
        ours = [entry.name for entry in fields(self) if entry.name != "more"]
        makers = {name: getattr(self, name).capture() for name in ours}
        others = [plugin.capture() for plugin in self.more]

        def make() -> PluginRegistry:
            return replace(self, more=tuple(entry() for entry in others), **{n: maker() for n, maker in makers.items()})

        return make

    def in_order(self) -> tuple[Plugin, ...]:
        """The plugins, in the order of their extension points."""
        load = (LoadPlugin(self.load_aware),) if self.load_aware.is_on else ()
        use = (PredictedUsePlugin(self.predicted_use),) if self.predicted_use.is_on else ()
        resizes = (self.deferred_resizes,) if self.deferred_resizes.is_on else ()
        extenders = (self.extenders,) if self.extenders.extenders else ()
        return (
            self.gangs,
            self.quotas,
            self.cpus.updates,
            DeviceGate(self.devices),
            ClaimGate(self.claims),
            self.reservations,
            self.lent_for_stay,
            self.neighbours,
            *resizes,
            *load,
            *use,
            *extenders,
            *self.more,
        )

    def node_rules(self) -> tuple[NodeRules, ...]:
        """The node rules, in the order in which they filter."""
        load = (self.load_aware,) if self.load_aware.is_on else ()
        use = (self.predicted_use,) if self.predicted_use.is_on else ()
        extenders = (self.extenders,) if self.extenders.extenders else ()
        own = (self.lent_for_stay, self.neighbours, *extenders, *self.more)
        more = (PluginRules(plugin) for plugin in own if is_node_rule(plugin))
        return (self.cpus, self.devices, self.claims, *load, *use, *more)
