"""What the node's agent knows about a zone: its pods, and the burn rates of their objectives.

Pods have labels and groups that only the agent lists, and a late dispatch says that a task waited, not that requests
were missed; what the trace process measures of spans, a proxy's such as Envoy's or a service's own, reaches the agent,
and so do services' own reports. Once a period ask the agent's `/v1/state`. A selected pod's group is a group of the
zone while it exists in the cgroup tree. A zone's group gets the highest burn rate of the pods in it or below it, of
fresh signals and reports only. A report is judged as the agent's guard does: one request in a hundred may miss the
pod's own objective.
Limits: while no agent answers there are no burn rates, the zone decides by late dispatches alone, and its groups stay;
the first failure in a row is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from cotenant.model.errors import CotenantError
from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.replica_signal import FRESH_US
from cotenant.model.zones.table import ZoneRow
from cotenant.services.clients.agent import AgentClient
from cotenant.services.zones.definition import MAX_GROUPS, ZoneDefinition

REPORT_FRESH_US = 15_000_000
_REPORT_BUDGET_PPM = 10_000
_log = logging.getLogger(__name__)


class ZoneAgentView:
    """An agent as one zone sees it. `agent`: HOST:PORT or unix:/PATH; `exists`: whether a group is in the cgroup
    tree.
    """

    def __init__(self, agent: str, definition: ZoneDefinition, exists: Callable[[str], bool]) -> None:
        self._client = AgentClient(agent)
        self._definition = definition
        self._exists = exists
        self._groups: tuple[str, ...] = tuple(definition.rows())
        self._page: Mapping[str, object] | None = None  # of this period
        self._is_silent = False

    async def members(self) -> dict[str, ZoneRow] | None:
        """The zone's groups now, with their rows as defined; None where the agent does not answer. Groups that were
        found are those of the next `burns`.
        """
        self._page = await self._ask()
        if self._page is None:
            return None
        rows = members_of(self._page, self._definition, self._exists)
        self._groups = tuple(rows)
        return rows

    async def burns(self) -> dict[str, float]:
        """By group, 1.0 uses up the budget exactly; groups without a fresh signal are absent."""
        page, self._page = self._page, None
        if page is None:
            page = await self._ask()
        return {} if page is None else burns_of(page, self._groups)

    async def pod_burns(self) -> dict[str, float]:
        """As `burns`, of the pods of a zone in a virtual machine."""
        page = await self._ask()
        return {} if page is None else pod_burns_of(page, self._definition.zone)

    async def _ask(self) -> Mapping[str, object] | None:
        try:
            state = await asyncio.to_thread(self._client.get, "/v1/state")
        except CotenantError as error:
            if not self._is_silent:
                _log.warning("zone %s: no burn rates, and no news of pods: %s", self._definition.zone, error)
            self._is_silent = True
            return None
        self._is_silent = False
        return state


def members_of(state: JsonMapping, definition: ZoneDefinition, exists: Callable[[str], bool]) -> dict[str, ZoneRow]:
    """The zone's groups by a page of `/v1/state`: those listed, and those of selected pods that are not within one
    another. At most `MAX_GROUPS`, the listed ones first.
    """
    rows = definition.rows()
    for pod in state.get("pods", ()):
        group, labels = pod["group"], pod.get("labels", {})
        rule = definition.rule_for(str(pod["pod"]).partition("/")[0], labels)
        if rule is None or any(_related(group, other) for other in rows) or not exists(group):
            continue
        if len(rows) >= MAX_GROUPS:
            _log.warning("zone %s: more than %d groups; %s is left out", definition.zone, MAX_GROUPS, group)
            break
        rows[group] = rule.row()
    return rows


def _related(group: str, other: str) -> bool:
    return group == other or group.startswith(f"{other}/") or other.startswith(f"{group}/")


def burns_of(state: JsonMapping, groups: Iterable[str]) -> dict[str, float]:
    """The burn rates in a page of `/v1/state`, by group."""
    found: dict[str, float] = {}
    for pod in state.get("pods", ()):
        rates = [burn for signal in pod.get("signals", ()) if (burn := _burn(signal)) is not None]
        reported = _burn_of_report(pod)
        if reported is not None:
            rates.append(reported)
        if not rates:
            continue
        for group in groups:
            if pod["group"] == group or pod["group"].startswith(f"{group}/"):
                found[group] = max(found.get(group, 0.0), *rates)
    return found


def pod_burns_of(state: JsonMapping, zone: str) -> dict[str, float]:
    """The burn rates of a zone's own pods in a page of `/v1/state`, by pod."""
    found: dict[str, float] = {}
    for pod in state.get("zone_pods", ()):
        rates = [burn for signal in pod.get("signals", ()) if (burn := _burn(signal)) is not None]
        if pod["zone"] == zone and rates:
            found[str(pod["pod"])] = max(rates)
    return found


def _burn(signal: JsonMapping) -> float | None:
    """As `ReplicaSignal.burn_milli`, of a fresh signal."""
    allowed = signal["requests"] * signal["budget_ppm"]
    if signal["age_us"] > FRESH_US or not allowed:
        return None
    return float(signal["bad"] * 1e6 / allowed)


def _burn_of_report(pod: JsonMapping) -> float | None:
    """Of what a service itself reported, where its pod has an objective; signals of spans come as such."""
    health = pod.get("health")
    if not health or health.get("objective") or pod.get("objective_p99_us") is None:
        return None
    if health["age_us"] > REPORT_FRESH_US or not health["requests"]:
        return None
    return float(health["over_objective"] * 1e6 / (health["requests"] * _REPORT_BUDGET_PPM))
