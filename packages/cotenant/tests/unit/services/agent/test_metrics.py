"""/metrics: the metrics of a node, unknown figures are left out, and the dashboard uses only existing metrics."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.fakes.node.agent_world import CONFIG, world

from cotenant.engine.node.mode import AgentMode
from cotenant.services.agent_settings.config import ReportSettings
from cotenant.services.reporting.latency import LatencyOutcome

DASHBOARD = Path(__file__).parents[6] / "deploy/chart/files/dashboards/node.json"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def page(seconds: int = 3) -> str:
    """The exposition of an agent with a service, a job and a receiver."""
    w = world(reports=ReportSettings(urls=("http://scheduler.example/metrics/report",)))
    w.use = {"top/web": 1500, "top/job": 2400}

    async def run() -> bytes:
        process = w.process()
        await process.discover()
        await w.tick(process, seconds)
        process.report()
        await process.deliveries[0].deliver()
        process.metrics.reacted(0.01)
        process.latency_counts[LatencyOutcome.TAKEN] += 1
        return process.metrics.page()

    return asyncio.run(run()).decode()


def samples(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_machine_the_pods_and_the_knobs() -> None:
    found = samples(page())
    web = (("group", "top/web"), ("pod", "shop/web"), ("qos", "LS"), ("tenant", "shop"))
    assert found["cotenant_pod_cpu_used_cores", web] == 1.5
    assert found["cotenant_pod_objective_seconds", web] == 0.005
    assert found["cotenant_node_cpu_capacity_cores", ()] == 4
    assert found["cotenant_node_cpu_used_cores", ()] == 3.9
    assert found["cotenant_class_cpu_used_cores", (("class", "none"),)] == 3.9
    held = {labels: value for (name, labels), value in found.items() if name == "cotenant_knob_cpu_idle"}
    assert held == {(("group", "top/job"), ("policy", "best-effort-cpu"), ("state", "held")): 1}
    assert found["cotenant_agent_keeper_up", ()] == 1
    assert found["cotenant_agent_conflicts", ()] == 0
    assert found["cotenant_agent_ticks_total", ()] == 3
    url = (("outcome", "delivered"), ("url", "http://scheduler.example/metrics/report"))
    assert found["cotenant_agent_reports_total", url] == 1


def test_what_is_not_known_is_left_out() -> None:
    found = samples(page())
    names = {name for name, _ in found}
    assert "cotenant_pod_cpi" not in names
    assert "cotenant_pod_latency_p99_seconds" not in names
    assert all(value == value for value in found.values())


def test_before_the_first_sample_there_is_a_page() -> None:
    w = world(mode=AgentMode.OBSERVE)
    process = w.process()
    found = samples(process.metrics.page().decode())
    assert found["cotenant_agent_info", (("mode", "observe"), ("node", CONFIG.node), ("version", process.version))] == 1
    assert not any(name.startswith("cotenant_node_") for name, _ in found)


def test_the_page_does_not_grow_with_uptime() -> None:
    assert len(page(60).splitlines()) - len(page(10).splitlines()) <= 10  # a rule or two more


def test_a_name_that_breaks_an_exposition_is_escaped() -> None:
    w = world()
    odd = 'a"b\\c'
    w.config = CONFIG.__class__(
        node="n1",
        groups=(CONFIG.groups[0].__class__(group=odd, name="x/y", qos=CONFIG.groups[0].qos),),
        listen="",
    )

    async def run() -> bytes:
        process = w.process()
        await process.discover()
        await w.tick(process, 2)
        return process.metrics.page()

    found = samples(asyncio.run(run()).decode())
    assert odd in {dict(labels).get("group") for _, labels in found}


def test_every_metric_of_the_dashboard_is_exported() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    asked += [entry["query"]["query"] for entry in dashboard["templating"]["list"] if entry["type"] == "query"]
    assert len(asked) > 25
    names = {name for expression in asked for name in re.findall(r"\b(?:cotenant|process)_[a-z0-9_]+", expression)}
    families = {family.name: family for family in text_string_to_metric_families(page())}
    exported = set()
    for name, family in families.items():
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}.get(family.type, ("",))
        exported |= {name + suffix for suffix in suffixes}
    assert names <= exported, sorted(names - exported)


def test_every_label_that_the_dashboard_selects_by_is_there() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    found = samples(page())
    labels_of: dict[str, set[str]] = {}
    for name, labels in found:
        labels_of.setdefault(name, set()).update(label for label, _ in labels)
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            for name, inside in re.findall(r"\b((?:cotenant|process)_[a-z0-9_]+)\{([^}]*)\}", target["expr"]):
                asked = set(re.findall(r"(\w+)(?:=~|!=|!~|=)", inside)) - {"instance"}
                if name in labels_of:
                    assert asked <= labels_of[name], (name, asked - labels_of[name])
