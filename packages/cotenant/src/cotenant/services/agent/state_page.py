"""The answer to `/v1/state`: what the node's state was at the last tick, and how the agent is."""

from __future__ import annotations

from cotenant.model.machine.node_state import NodeState
from cotenant.services.agent.http import PodPage, StatePage
from cotenant.services.agent.metrics import ScrapedAgent
from cotenant.services.agent.reports.gpu_shares import shares_of_node


def state_page(view: ScrapedAgent, state: NodeState) -> StatePage:
    """The page."""
    return StatePage(
        node=view.node,
        mode=view.mode,
        at_us=state.at_us,
        interval_us=state.interval_us,
        keeper_up=view.actor.keeper_up,
        keeper_said=view.actor.keeper_said,
        host=state.host,
        best_effort_group=state.best_effort_group,
        best_effort=state.best_effort,
        pods=tuple(
            PodPage(
                pod=entry.pod.key,
                uid=entry.pod.uid,
                group=entry.pod.group,
                qos=entry.pod.qos.value,
                tenant=entry.pod.tenant,
                phase=entry.pod.phase.value,
                objective_p99_us=entry.pod.objective_p99_us,
                use=entry.use,
                health=entry.health,
                signals=entry.signals,
                labels=dict(entry.pod.labels.items),
            )
            for entry in state.pods
        ),
        gpus=view.ticker.last.gpus if view.ticker.last is not None else (),
        cache=view.components.cache_use(),
        gaps=view.gaps(),
        sources={source.name: source.said for source in view.sources.sources},
        cpu_ratio_milli=state.cpu_ratio_milli,
        remark=view.remark(),
        kubelet=view.components.kubelet().sentence,
        failing=tuple(str(failure) for failure in view.agent.failing_policies()),
        runtime_hook_state=str(view.config.runtime_hook.state_file),
        gpu_shares=_shares(view),
        idle_gpus=view.agent.idle_cards().now,
        zone_pods=view.signals.zone_pods.page(view.components.clocks.now_us()),
        holdings=view.components.holdings,
    )


def _shares(view: ScrapedAgent) -> str:
    gpus = view.ticker.last.gpus if view.ticker.last is not None else ()
    verdict = shares_of_node(view.config.runtime_hook, gpus)
    said = "shares of this node's GPUs are"
    return f"{said} held: {verdict.by}" if verdict.by else f"{said} not held: {verdict.why}" if verdict.why else ""
