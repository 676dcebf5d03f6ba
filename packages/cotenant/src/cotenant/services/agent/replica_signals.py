"""Signals of replicas that the trace process measured from spans, and what is reported back to it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from cotenant.engine.node.agent import Agent
from cotenant.engine.node.mode import AgentMode
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_pod import NodePod, NodePodPhase
from cotenant.services.agent.components import AgentComponents
from cotenant.services.agent.reports.objective_actions import actions_of, moves_of
from cotenant.services.agent.reports.stories import ChangedStories
from cotenant.services.agent_settings.config import AgentConfig
from cotenant.services.reporting.signals import SignalLine, to_signal
from cotenant.services.zones.agent_pods import ZonePods

if TYPE_CHECKING:  # an HTTP client comes with it: only where a trace process is configured
    from cotenant.services.agent.trace_link import TraceLink


class AgentOnNode(Protocol):
    """What of the agent's process is read; a reload replaces the engine and the configuration."""

    node: str
    agent: Agent
    config: AgentConfig
    components: AgentComponents


def traced(pods: Iterable[NodePod]) -> list[tuple[str, str]]:
    """The pods whose signals are of use: services."""
    return [(pod.key, pod.uid) for pod in pods if not pod.best_effort and pod.phase is not NodePodPhase.OVER]


class ReplicaSignalFeed:
    """Takes them to the engine, and its actions back."""

    def __init__(self, process: AgentOnNode) -> None:
        self._process = process
        self.asked: list[tuple[str, str]] = []  # name and UID of each pod whose signals are asked for
        self.zone_pods = ZonePods(lambda: process.config.zone_states)
        self.counts = {"taken": 0, "unknown": 0, "invalid": 0}

    def asks_for_others(self, pods: Iterable[NodePod]) -> bool:
        """The node's pods were listed; whether its services, with those in its zones' machines, are others now."""
        before, self.asked = self.asked, [*traced(pods), *self.zone_pods.traced()]
        return set(before) != set(self.asked)

    def came(self, line: SignalLine) -> None:
        """Store the signals of a line of the trace process."""
        agent = self._process.agent
        now_us = self._process.components.clocks.now_us()
        for wire in line.signals:
            try:
                signal = to_signal(wire)
                is_known = agent.signal_reported(signal.pod_uid or signal.pod, signal, now_us)
                is_known = is_known or self.zone_pods.reported(signal.pod_uid, signal, now_us)
                self.counts["taken" if is_known else "unknown"] += 1
            except InvalidInput:
                self.counts["invalid"] += 1
        for pod, objective in line.withdrawn:
            agent.signal_withdrawn(pod, objective)
            self.zone_pods.withdrawn(pod, objective)

    async def report_actions(self, link: TraceLink) -> None:
        """Tell the trace process what was done for objectives, for ever."""
        process = self._process
        last, moves_us, stories = 0, 0, ChangedStories(process.node)
        while True:
            await asyncio.sleep(process.config.period_ms / 1000)
            decisions, state = process.agent.decisions(last), process.agent.state()
            clocks, recovery = process.components.clocks, process.agent.recovery()
            if recovery is not None and state is not None:
                state_s = clocks.wall() - (clocks.now_us() - state.at_us) / 1e6
                if process.config.mode is AgentMode.ACT:
                    for move in moves_of(recovery, process.node, state.at_us, state_s, moves_us):
                        link.acted(move)
                    moves_us = state.at_us
                if link.connected:
                    for report in stories.due(recovery, state, state_s, link.connections):
                        link.report_story(report)
            if not decisions or state is None:
                continue
            last = decisions[-1].number
            for action in actions_of(decisions, state, process.node, clocks.now_us(), clocks.wall()):
                link.acted(action)
