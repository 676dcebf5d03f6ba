"""What is done where nothing is set: the figures and switches that settings and options begin with.

A default is part of an interface: those of papers and of Koordinator are theirs, our own were measured or tuned, and
guides speak of them. Whoever changes one changes it here too, and tells users.
"""

from __future__ import annotations

import json
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

DEFAULTS: dict[str, dict[str, bool | int | float]] = json.loads(Path(__file__).with_name("defaults.json").read_text())
# by which `tools.mutation` finds this file
SETTINGS = (
    "cotenant.policy.assess.day_profile:DayProfileSettings",
    "cotenant.policy.autonomy.ladder:LadderSettings",
    "cotenant.policy.credit.bounds:CreditRules",
    "cotenant.policy.interference.attribution.settings:AttributionSettings",
    "cotenant.policy.interference.learning.model:LearningSettings",
    "cotenant.policy.interference.settings:InterferenceSettings",
    "cotenant.policy.nodeqos.batch_resources:BatchResourcesConfig",
    "cotenant.policy.nodeqos.burst.config:BurstConfig",
    "cotenant.policy.nodeqos.cpu.own_cpus:OwnCpusConfig",
    "cotenant.policy.nodeqos.cpu.startup_grace:StartupGraceConfig",
    "cotenant.policy.nodeqos.cpu.suppression:SuppressConfig",
    "cotenant.policy.nodeqos.eviction.cpu:CpuEvictionConfig",
    "cotenant.policy.nodeqos.eviction.memory:MemoryEvictionConfig",
    "cotenant.policy.nodeqos.eviction.memory_pressure:MemoryPressureConfig",
    "cotenant.policy.nodeqos.guard.config:GuardConfig",
    "cotenant.policy.nodeqos.io.disk:IoConfig",
    "cotenant.policy.nodeqos.io.network:NetworkConfig",
    "cotenant.policy.nodeqos.memory.reclaim:ReclaimConfig",
    "cotenant.policy.overcommit.batch:BatchRules",
    "cotenant.policy.overcommit.mid:MidRules",
    "cotenant.policy.overcommit.peak:PeakSettings",
    "cotenant.policy.overcommit.predicted_use:PredictedUseSettings",
    "cotenant.policy.overcommit.reclaimable:ReclaimableConfig",
    "cotenant.policy.placement.cpus.node_fit:NodeOptions",
    "cotenant.policy.placement.knobs:Knobs",
    "cotenant.policy.placement.kube_scoring:ScoreWeights",
    "cotenant.policy.placement.load_aware.settings:LoadAwareSettings",
    "cotenant.policy.prediction.course:CourseSettings",
    "cotenant.policy.prediction.reserve:ReserveSettings",
    "cotenant.policy.quota.headroom:HeadroomRules",
    "cotenant.policy.rebalance.migration.evictable:EvictionFilter",
    "cotenant.policy.rebalance.objectives:MissSettings",
    "cotenant.policy.sharding.borrowing:LoanLimits",
    "cotenant.policy.zone.deciding:ZoneConfig",
    "cotenant.engine.fleet.terminal:TerminalLimits",
    "cotenant.engine.framework.settings:EngineSettings",
    "cotenant.engine.manager.settings:ManagerSettings",
    "cotenant.engine.migration.contracts:MigrationSettings",
    "cotenant.engine.node.bursts:BurstSettings",
    "cotenant.engine.node.first_values:FirstValueSettings",
    "cotenant.engine.node.gpu_lending.settings:GpuLendingSettings",
    "cotenant.engine.node.recovery.settings:RecoverySettings",
    "cotenant.engine.node.settings:EvictionLimits",
    "cotenant.engine.node.settings:AgentSettings",
    "cotenant.engine.plugins.quotas.settings:QuotaSettings",
    "cotenant.engine.rebalancer.settings:ActingSettings",
    "cotenant.engine.rebalancer.settings:RebalancerSettings",
    "cotenant.engine.rules.devices.requests:DeviceSettings",
    "cotenant.engine.zones.zone:ZoneLimits",
    "cotenant.services.agent.agent_arguments:AgentArguments",
    "cotenant.services.agent_settings.config:ClusterAccess",
    "cotenant.services.agent_settings.config:TriggerSettings",
    "cotenant.services.agent_settings.config:ProbeSettings",
    "cotenant.services.agent_settings.config:BurstLooks",
    "cotenant.services.agent_settings.config:AgentConfig",
    "cotenant.services.agent_settings.runtime_hook:RuntimeHook",
    "cotenant.services.assess.assess_arguments:ReadArguments",
    "cotenant.services.console.console_arguments:ConsoleArguments",
    "cotenant.services.console.console_process:ConsoleOptions",
    "cotenant.services.credit.credit_arguments:CreditArguments",
    "cotenant.services.credit.credit_process:CreditOptions",
    "cotenant.services.extender.extender_arguments:ExtenderSettings",
    "cotenant.services.fleet.federation.hub_main:HubOptions",
    "cotenant.services.fleet.federation.joining:JoinOptions",
    "cotenant.services.fleet.functions.terminals.records:RecordLimits",
    "cotenant.services.fleet.log_reading:LogOptions",
    "cotenant.services.keeper.keeper_arguments:KeeperArguments",
    "cotenant.services.knobs.rules:KnobRules",
    "cotenant.services.manager.manager_arguments:ManagerArguments",
    "cotenant.services.manager.manager_process:ManagerOptions",
    "cotenant.services.profiling.ladder:Ladder",
    "cotenant.services.profiling.profiling_arguments:SlowArguments",
    "cotenant.services.reviewing.rules:ReviewRules",
    "cotenant.services.scheduler.scheduler_arguments:SchedulerArguments",
    "cotenant.services.scheduling.options:Options",
    "cotenant.services.traces.traces_arguments:TraceSettings",
    "cotenant.services.webhook.webhook_arguments:WebhookSettings",
    "cotenant.services.zones.pods:PodProbe",
    "cotenant.services.zones.quota:ZoneQuota",
)
# what processes count from their start on
COUNTS = (
    "cotenant.engine.node.instructions:AgentCounts",
    "cotenant.engine.traces.trace_engine:TraceCounts",
    "cotenant.policy.placement.gangs.permit:GangTally",
    "cotenant.services.console.fleet:ClusterTotals",
    "cotenant.services.console.views.moves:MoveCounts",
    "cotenant.services.extender.protocol:ExtenderCounts",
    "cotenant.services.keeper.server:ConnectionCounts",
    "cotenant.services.nri.hook:HookCounts",
    "cotenant.services.rebalancer.options:RoundTotals",
    "cotenant.services.zones.quota:MachineSums",
)


def found(place: str) -> dict[str, Any]:
    """The defaults of a class that are numbers or switches."""
    module, _, name = place.partition(":")
    of = getattr(import_module(module), name)
    return {field.name: field.default for field in fields(of) if type(field.default) in (bool, int, float)}


@pytest.mark.parametrize("place", SETTINGS)
def test_nothing_set_means_these_values(place: str) -> None:
    values = found(place)
    assert values == DEFAULTS[place]
    assert list(map(type, values.values())) == [type(DEFAULTS[place][name]) for name in values]


def test_every_entry_is_tried() -> None:
    assert set(SETTINGS) == set(DEFAULTS)


@pytest.mark.parametrize("place", COUNTS)
def test_counts_begin_at_nothing(place: str) -> None:
    values = found(place)
    assert values
    assert not any(values.values())
