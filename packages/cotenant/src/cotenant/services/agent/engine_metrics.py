"""What the agent's engine does, as metrics: events, knobs that are held, incidents and proven actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from math import inf

from prometheus_client.core import Metric

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.decision_log import HeldKnob
from cotenant.engine.node.instructions import AgentCounts
from cotenant.engine.node.recovery.policy import RecoveryMemory
from cotenant.engine.node.recovery.stages import ENDED, IncidentStage, RecoveryRung
from cotenant.model.cpus.cpulist import parse_cpus
from cotenant.model.errors import CotenantError
from cotenant.model.machine.knob import UNLIMITED, Knob
from cotenant.model.machine.knob_values import parse_cpu_max
from cotenant.services.agent.metric_families import counter, gauge


def _recovery(memory: RecoveryMemory) -> Iterator[Metric]:
    stages = Counter(incident.stage.value for incident in memory.incidents)
    yield gauge(
        "cotenant_agent_incidents",
        "Open incidents of services by stage",
        ("stage",),
        [((stage.value,), stages[stage.value]) for stage in IncidentStage if stage not in ENDED],
    )
    yield counter(
        "cotenant_agent_recovery_actions",
        "Proven actions for services in trouble",
        ("rung", "outcome"),
        [
            ((rung.value, "helped" if helped else "no effect"), memory.proven.get((rung, helped), 0))
            for rung in RecoveryRung
            for helped in (True, False)
        ],
    )


def of_engine(agent: Agent) -> Iterator[Metric]:
    """Its counts, the knobs that it holds, and incidents."""
    recovery = agent.recovery()
    if recovery is not None:
        yield from _recovery(recovery)
    counts = agent.counts()
    yield counter(
        "cotenant_agent_events",
        "What happened, as the engine counts it",
        ("what",),
        [((field.name,), getattr(counts, field.name)) for field in fields(AgentCounts)],
    )
    holds = agent.held_knobs()
    by_state: dict[tuple[str, str], int] = {}
    for hold in holds:
        key = (hold.state, hold.policy)
        by_state[key] = by_state.get(key, 0) + 1
    yield gauge(
        "cotenant_agent_holds",
        "Knobs by state and by the policy that wants them",
        ("state", "policy"),
        list(by_state.items()),
    )
    for knob, name, help_ in _KNOBS:
        yield gauge(
            name,
            help_,
            ("group", "policy", "state"),
            [
                ((hold.target.group, hold.policy, hold.state), _amount(hold))
                for hold in holds
                if hold.target.knob is knob
            ],
        )


# Held knobs whose value is an amount.
_KNOBS = (
    (Knob.CPU_MAX, "cotenant_knob_cpu_max_cores", "CPU that a held quota allows; +Inf: no limit"),
    (Knob.CPUSET_CPUS, "cotenant_knob_cpuset_cpus", "CPUs of a held set"),
    (Knob.CPU_IDLE, "cotenant_knob_cpu_idle", "1 where a group is held idle"),
    (Knob.CPU_WEIGHT, "cotenant_knob_cpu_weight", "A held weight, 1 to 10000"),
    (Knob.MEMORY_HIGH, "cotenant_knob_memory_high_bytes", "A held memory.high; +Inf: no limit"),
    (Knob.MEMORY_MAX, "cotenant_knob_memory_max_bytes", "A held memory.max; +Inf: no limit"),
)


def _amount(hold: HeldKnob) -> float | None:
    try:
        if hold.target.knob is Knob.CPU_MAX:
            limit = parse_cpu_max(hold.value)
            return inf if limit.quota_us is None else limit.quota_us / limit.period_us
        if hold.target.knob is Knob.CPUSET_CPUS:
            return float(len(parse_cpus(hold.value)))
        return inf if hold.value == UNLIMITED else float(hold.value)
    except (ValueError, CotenantError):
        return None
