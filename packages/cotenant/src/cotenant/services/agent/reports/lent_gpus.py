"""What is lent of a node's GPUs, as its Device object says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.gpu_lending.policy import RULE, GpuLendingMemory
from cotenant.engine.node.mode import AgentMode
from cotenant.services.agent_settings.config import AgentConfig


@dataclass(frozen=True, slots=True)
class LentGpus:
    """Percent of each card by its UUID, and within how many seconds it is wanted back."""

    percent: Mapping[str, int]
    return_s: int


def lent_gpus(agent: Agent, config: AgentConfig) -> LentGpus | None:
    """What is lent now; None where the policy is off, or the agent only observes: nobody would take it back."""
    settings, memory = config.policies.gpu_lending, agent.memory_of(RULE)
    if settings is None or agent.settings.mode is not AgentMode.ACT or not isinstance(memory, GpuLendingMemory):
        return None
    return LentGpus(memory.percent(), settings.return_s)
