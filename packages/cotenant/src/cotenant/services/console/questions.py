"""Questions of the page that are asked for one object at a time, and their answers as JSON.

    /api/state                         sources, sums, what is configured
    /api/history                       times of kept snapshots, and the curves of the last hour
    /api/pods?q=&state=&limit=         pods that match: pending ones first
    /api/pods/NAMESPACE/NAME           what the console knows of a pod
    /api/nodes/NAME                    a node: its pods with what they request and use
    /api/nodes/NAME/lent               what it offers as batch and mid resources, with every term
    /api/moves, /api/profiles, /api/zones  PodMigrationJobs, WorkloadProfiles and ControlZones (moves.py, profiles.py,
    zones.py)
    /api/zone/NAME                     a zone's monitors, from the agents of its nodes (zone_monitors.py)
    /api/lending                       PoolLendings (lending.py)
    /api/autonomy                      what the movers may do, suggest and did (acting/)
    /api/credit/...                    the credit process's account book (credit.py)
    /api/agent/NODE                    knobs with leases, pressure and run delay, from the node's agent (node_agent.py)
    /api/timeline/...                  what happened to a service (timeline.py)
    /api/lab/...                       experiments of the lab (results.py)
    /api/releases/..., vms, changes    applications and virtual machines (applications/)
    /api/hosts/..., /api/logs/...      the fleet's hosts, containers and groups; logs (hosts/)
    /api/scheduler/PAGE/...            a page of the scheduler's debug API, as it is (`PAGES`)
    /api/traces/PAGE                   a page of the trace process, as it is

The page must explain everything it colours, and the explanations exist in other processes. Those answers are passed on
unchanged, from a fixed list of pages, so that neither process needs to know the console.
Limits: only GET; the pages that change something in the scheduler are not in the list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import parse_qsl, quote

import msgspec

from cotenant.drivers.http.messages import HttpAnswer
from cotenant.drivers.kube.client.client import Client
from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.seals.seals import NO_SEALS, Seals
from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.services.console.fleet import MeasuredFleet
from cotenant.services.console.history import SnapshotHistory
from cotenant.services.console.pod_rows import PodRow
from cotenant.services.console.query import limit_of
from cotenant.services.console.sources import SCHEDULER, TRACES, ConsoleSources
from cotenant.services.console.upstream import Unanswered, Upstream
from cotenant.services.offers.explaining import node_view

API = "/api/"
MAX_PODS = 500
_PLUGINS = "/apis/v1/plugins"
# The page's name, and the path at the scheduler; each `{}` is a name.
PAGES: Mapping[str, str] = {
    "pod": "/debug/explain/pods/{}/{}",
    "quota": "/debug/explain/quotas/{}",
    "gang": "/debug/explain/gangs/{}/{}",
    "node": "/apis/v1/nodes/{}",
    "quotas": f"{_PLUGINS}/ElasticQuota/quotas",
    "gang-state": f"{_PLUGINS}/Coscheduling/gang/{{}}/{{}}",
    "gangs": f"{_PLUGINS}/Coscheduling/gangs",
    "cpus": f"{_PLUGINS}/NodeNUMAResource/cpuTopologyOptions/{{}}",
    "free-cpus": f"{_PLUGINS}/NodeNUMAResource/availableCPUs/{{}}",
    "devices": f"{_PLUGINS}/DeviceShare/nodeDeviceSummaries/{{}}",
    "reservations": f"{_PLUGINS}/Reservation/nodeReservations/{{}}",
}
OPTIONAL = ("cpus", "free-cpus", "devices", "reservations", "gang-state")  # null where there is none, or no such plugin
TRACE_PAGES = frozenset({"services", "traces", "graph", "critical", "objectives", "sketch"})
_STATES = {"": 0, "pending": 1, "running": 2, "burning": 3}


class QuestionSection(Protocol):
    """A part of the page with questions of its own, below `/api/NAME`."""

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer, which is sent as JSON; `names` follow the section's in the path. Raises `NotFound`,
        `InvalidInput`, `Unanswered`.
        """
        ...


class Questions:
    """Answers them. `now` gives Unix seconds."""

    def __init__(
        self,
        fleet: MeasuredFleet,
        history: SnapshotHistory,
        sources: ConsoleSources,
        client: Client,
        scheduler: Upstream,
        traces: Upstream,
        now: Callable[[], float],
        facts: Mapping[str, object],
        sections: Mapping[str, QuestionSection],
        seals: Seals = NO_SEALS,
    ) -> None:
        """`facts`: what the page gets to know about the console itself."""
        self._seals = seals
        self._fleet, self._history, self._sources, self._client = fleet, history, sources, client
        self._scheduler, self._traces, self._now, self._facts = scheduler, traces, now, facts
        self._sections = sections

    async def answer(self, path: str, raw_query: str) -> HttpAnswer:
        """The answer to a GET below `/api/`."""
        try:
            query = parse_qsl(raw_query, keep_blank_values=True, max_num_fields=32)
            match path.removeprefix(API).split("/"):
                case ["state"]:
                    return _json(self._state())
                case ["history"]:
                    return _json({"snapshots": self._history.times(), "curves": self._history.curves()})
                case ["pods"]:
                    return _json(self._pods(dict(query)))
                case ["pods", namespace, name]:
                    return self._pod(f"{namespace}/{name}")
                case ["nodes", name]:
                    return self._node(name)
                case ["nodes", name, "lent"]:
                    return _json(await self._once(node_view(self._client, name, seals=self._seals)))
                case [section, *names] if section in self._sections:
                    return _json(await self._sections[section].answer(names, dict(query)))
                case ["scheduler", page, *names] if page in PAGES and PAGES[page].count("{}") == len(names):
                    found = await self._scheduler.get(_filled(PAGES[page], names), query)
                    self._sources.ok(SCHEDULER)
                    return HttpAnswer(200, found)
                case ["traces", page, *names] if page in TRACE_PAGES and len(names) <= 2:
                    rest = "".join(f"/{quote(entry, safe='')}" for entry in names)
                    found = await self._traces.get(f"/api/v1/{page}{rest}", query)
                    self._sources.ok(TRACES)
                    return HttpAnswer(200, found)
        except Unanswered as error:
            if error.status == 404 and any(path.startswith(f"{API}scheduler/{page}/") for page in OPTIONAL):
                return _json(None)
            if error.status == 503:
                self._sources.failed(error.source, error.why)
            return wrong(error.status, error.why, error.source)
        except NotFound as error:
            return wrong(404, str(error), "cluster")
        except InvalidInput as error:
            return wrong(400, str(error), "console")
        except TimeoutError:
            return wrong(503, "no answer in time", "cluster")
        except ValueError:
            return wrong(400, "the query cannot be read", "console")
        except CotenantError as error:
            return wrong(502, str(error), "cluster")
        return wrong(404, "there is no such page", "console")

    def _state(self) -> dict[str, object]:
        return {
            **self._facts,
            "at": self._now(),
            "sources": self._sources.view(),
            "totals": self._fleet.totals(),
        }

    def _pods(self, query: Mapping[str, str]) -> dict[str, object]:
        text, state = query.get("q", "").strip().lower(), query.get("state", "")
        if state not in _STATES:
            raise InvalidInput("state", state, "one of " + ", ".join(filter(None, _STATES)))
        limit = limit_of(query, MAX_PODS)
        found: list[dict[str, object]] = []
        fleet, count = self._fleet, 0
        waiting = sorted((fleet.pods[key] for key in fleet.pending), key=lambda row: row.created_s)
        placed = (row for row in fleet.pods.values() if row.node and not row.phase.is_final)
        for row in (*(waiting if state in ("", "pending") else ()), *(placed if state != "pending" else ())):
            if state == "burning" and not fleet.is_late(row):
                continue
            if text and not any(
                text in entry.lower() for entry in (row.key, row.tenant, row.node, row.owner, row.gang)
            ):
                continue
            count += 1
            if len(found) < limit:
                found.append(self._view(row))
        return {"count": count, "pods": found, "unnamed": fleet.unnamed_late() if state == "burning" else 0}

    def _pod(self, key: str) -> HttpAnswer:
        row = self._fleet.pods.get(key)
        if row is None:
            return wrong(404, f"pod {key} does not exist", "cluster")
        has_terminal = bool(row.node) and bool(self._facts.get("terminals"))
        return _json({**self._view(row), "hasTerminal": has_terminal})

    def _node(self, name: str) -> HttpAnswer:
        row = self._fleet.nodes.get(name)
        if row is None:
            return wrong(404, f"node {name} does not exist", "cluster")
        pods = sorted(row.pods.values(), key=lambda pod: (pod.kind, -pod.cpu_m - pod.lent_cpu_m, pod.key))
        return _json(
            {
                "node": name,
                "ready": row.node.ready,
                "cordoned": row.node.unschedulable,
                "labels": row.node.labels.items,
                "taints": [f"{taint.key}={taint.value}:{taint.effect.value}" for taint in row.node.taints],
                "columns": row.columns,
                "pods": [self._view(pod) for pod in pods],
            }
        )

    def _view(self, row: PodRow) -> dict[str, object]:
        use = self._fleet.use_of(row.key)
        return {
            "pod": row.key,
            "node": row.node,
            "tenant": row.tenant,
            "kind": int(row.kind),
            "phase": row.phase.value,
            "priority": row.priority,
            "cpu": row.cpu_m,
            "lentCpu": row.lent_cpu_m,
            "memory": row.memory,
            "usedCpu": None if use is None else use.cpu_m,
            "usedMemory": None if use is None else use.memory_bytes,
            "created": row.created_s,
            "owner": row.owner,
            "gang": row.gang,
            "scheduler": row.scheduler,
            "terminating": row.terminating,
            "objectiveMs": row.objective_p99_ms,
            "latencyMs": self._fleet.latency_of(row.key),
            "late": self._fleet.is_late(row),
        }

    async def _once(self, question: Awaitable[object]) -> object:
        async with asyncio.timeout(20.0):
            return await question


def wrong(status: int, why: str, source: str) -> HttpAnswer:
    """An answer that says what is wrong, and with which source."""
    return HttpAnswer(status, msgspec.json.encode({"error": why, "source": source}))


def _json(value: object) -> HttpAnswer:
    return HttpAnswer(200, msgspec.json.encode(value))


def _filled(pattern: str, names: Sequence[str]) -> str:
    return pattern.format(*(quote(name, safe="") for name in names))
