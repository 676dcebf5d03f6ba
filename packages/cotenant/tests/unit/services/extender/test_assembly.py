"""What the settings make of the joined parts, seen from outside: by requests to the application."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.cluster.quota_world import quota
from tests.fakes.servers.extender_forms import GIB, NOW, by_name, pod, report, written
from tests.fakes.servers.http_servers import serving
from tests.fakes.servers.told_watches import nobody

from cotenant.drivers.http.limits import DEFAULTS
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import NAME
from cotenant.model.resources import Amounts
from cotenant.services.extender.extender_arguments import ExtenderSettings
from cotenant.services.extender.extender_process import ExtenderComponents

CLUSTER = ExtenderSettings(cluster=True)
FRESH = "cotenant_extender_nodes_reporting "


def parts_of(settings: ExtenderSettings, now_s: float = NOW) -> ExtenderComponents:
    return ExtenderComponents(settings, lambda: now_s, nobody() if settings.cluster else None)


def told(node: str, at_s: float = NOW) -> bytes:
    figures = {"cpu_allocatable": 8, "cpu_used": 2, "memory_allocatable": 32 * GIB, "memory_used": GIB}
    return written({"node_name": node, "timestamp": at_s, **figures})


def test_reports_need_the_token_where_one_is_set(tmp_path: Path, ask: Any) -> None:
    file = tmp_path / "token"
    file.write_text("a-secret-of-the-agents\n")
    app = parts_of(ExtenderSettings(report_token_file=file)).app
    bearer = {"authorization": "Bearer a-secret-of-the-agents"}
    assert ask(app, "/metrics/report", told("n1")).status == 401
    assert ask(app, "/metrics/report", told("n1"), headers={"authorization": "Bearer another"}).status == 401
    assert ask(app, "/metrics/report", told("n1"), headers=bearer).status == 204
    assert ask(parts_of(ExtenderSettings()).app, "/metrics/report", told("n1")).status == 204


def test_a_report_counts_as_fresh_until_it_is_too_old(ask: Any) -> None:
    now = [NOW]
    parts = ExtenderComponents(ExtenderSettings(), lambda: now[0])

    def fresh() -> float:
        page = ask(parts.app, "/metrics", method="GET").body.decode()
        return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(FRESH))

    assert fresh() == 0
    assert ask(parts.app, "/metrics/report", told("n1", NOW)).status == 204
    assert ask(parts.app, "/metrics/report", told("n2", NOW - 5.0)).status == 204
    ttl_s = parts.reports.ttl_s
    for later_s, count in ((0.0, 2), (ttl_s - 5.0, 2), (ttl_s - 4.0, 1), (ttl_s, 1), (ttl_s + 1.0, 0)):
        now[0] = NOW + later_s
        assert fresh() == count, later_s


@pytest.mark.parametrize(("credit", "best"), [(True, "calm"), (False, "bad")])
def test_a_debtors_pod_avoids_violations_only_where_credit_counts(credit: bool, best: str, ask: Any) -> None:
    parts = parts_of(replace(CLUSTER, credit=credit, score_max=100))
    parts.mirror.sync()
    parts.mirror.report_received(report("calm", 6.0, 16 * GIB, dominant_share=0.6))
    parts.mirror.report_received(report("bad", 4.0, 16 * GIB, violation=0.2, dominant_share=0.6))
    if parts.standings is not None:
        parts.standings.quota_seen(replace(quota("team", 1, 10), standing=-1000))
    asked = pod()
    asked["metadata"] |= {"namespace": "work", "labels": {NAME: "team"}}
    answer = ask(parts.app, "/prioritize", by_name(["calm", "bad"], asked))
    scores = {load["Host"]: load["Score"] for load in json.loads(answer.body)}
    assert max(scores, key=lambda host: scores[host]) == best
    assert max(scores.values()) > 10


@pytest.mark.parametrize(("profile", "best"), [("founding", "unused"), ("founding-ledger", "unrequested")])
def test_one_founding_profile_scores_by_reports_and_the_other_by_requests(profile: str, best: str, ask: Any) -> None:
    parts = parts_of(replace(CLUSTER, profile=profile))
    for name, used_cpu in (("unused", 1.0), ("unrequested", 7.0)):
        parts.mirror.node_seen(Node(name, Amounts.of({"cpu": 8000, "memory": 32 * GIB, "pods": 110})))
        parts.mirror.report_received(report(name, used_cpu))
    parts.mirror.pod_seen("u", "unused", Pod("p", requests=Amounts.of({"cpu": 7000})).shape())
    parts.mirror.sync()
    answer = ask(parts.app, "/prioritize", by_name(["unused", "unrequested"], pod(cpu="1")))
    scores = {load["Host"]: load["Score"] for load in json.loads(answer.body)}
    assert max(scores, key=lambda host: scores[host]) == best
    assert max(scores.values()) <= 10


def test_it_serves_until_it_is_told_to_stop() -> None:
    async def asked() -> bytes:
        async with serving("extender", DEFAULTS) as address:
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            answer = await reader.read()
            writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(address.host, address.port)
        return answer

    answer = asyncio.run(asked())
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"ok\n")
