"""An invalid file gives a one-line error with the place and the expectation; a valid one becomes the configuration."""

from __future__ import annotations

import json
import socket
from dataclasses import fields
from pathlib import Path

import pytest

from cotenant.engine.node.mode import AgentMode
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.eviction.goals import Currency
from cotenant.services.agent_settings.config import AgentConfig, read_config
from cotenant.services.agent_settings.plain_groups import PlainEviction

WHOLE = """
node: edge-1
mode: act
period_ms: 500
lease_ttl_ms: 15000
writable: [batch]
best_effort_group: batch
groups:
  - group: services/web
    name: shop/web
    qos: LS
    tenant: shop
    objective_p99_ms: 2.5
    requests: {cpu: 500m, memory: 256Mi}
    limits: {cpu: 2}
  - {group: batch/one, name: jobs/one, qos: BE}
reserved: {cpu: 100m}
evictions: {per_minute: 1}
plain_eviction: kill
reports: {urls: ["http://127.0.0.1:8888/metrics/report"], period_s: 15}
cluster: {context: edge}
listen: unix:/run/cotenant/agent.sock
"""


def read(text: str, tmp_path: Path, name: str = "agent.yaml") -> AgentConfig:
    file = tmp_path / name
    file.write_text(text)
    return read_config(file)


def test_a_whole_file(tmp_path: Path) -> None:
    config = read(WHOLE, tmp_path)
    assert config.mode is AgentMode.ACT
    assert config.plain_eviction is PlainEviction.KILL
    assert config.cluster is not None
    assert config.cluster.context == "edge"
    web, one = config.pods()
    assert (web.key, web.group, web.qos, web.tenant) == ("shop/web", "services/web", QoSClass.LS, "shop")
    assert (web.objective_p99_us, web.cpu_request_m, web.memory_request_bytes) == (2500, 500, 256 << 20)
    assert web.containers[0].cpu_limit_m == 2000
    assert one.best_effort
    assert one.tenant == "jobs"
    settings = config.settings()
    assert (settings.mode, settings.roots, settings.best_effort_group) == (AgentMode.ACT, ("batch",), "batch")
    assert (settings.period_us, settings.lease_us, settings.reserved_cpu_m) == (500_000, 15_000_000, 100)
    assert settings.evictions.per_minute == 1


def test_defaults_observe_and_write_nothing(tmp_path: Path) -> None:
    config = read("", tmp_path)
    assert config.mode is AgentMode.OBSERVE
    assert config.writable == ()
    assert config.reports.urls == ()
    assert config.cluster is None


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = read('node = "a"\n[[groups]]\ngroup = "g"\nname = "x/y"\nqos = "BE"\n', tmp_path, "a.toml")
    text = json.dumps({"node": "a", "groups": [{"group": "g", "name": "x/y", "qos": "BE"}]})
    assert toml == read(text, tmp_path, "a.json")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("periodms: 5", "periodms: unknown: expected a field of this part; did you mean period_ms?"),
        ("period_ms: fast", "period_ms: fast: expected a whole number"),
        ("period_ms: 10", "period_ms: 10: expected 100 to 60000 milliseconds"),
        ("lease_ttl_ms: 1000", "lease_ttl_ms: 1000: expected 3 periods (3000) to 3600000 milliseconds"),
        ("mode: brave", "mode: brave: expected one of act, dry-run, observe"),
        (
            "mode: act",
            "writable: nothing: expected at least one group while mode is act; knobs below it may be written",
        ),
        ("writable: [/batch]", "writable: /batch: expected a path below the tree's root"),
        ('writable: ["a\\nb"]', "writable: 'a\\nb': expected one line"),
        ("writable: ['']", "writable: (empty): expected a group below the root; the root itself is not the agent's"),
        ("groups: [{group: a, qos: BE}]", "groups[0].name: missing: expected a value"),
        ("groups: [{group: a, name: x/y, qos: best}]", "groups[0].qos: best: expected one of LSE, LSR, LS, BE, SYSTEM"),
        ("groups: [{group: a/../b, name: x/y, qos: BE}]", "groups[0].group: a/../b: expected a path below"),
        ("groups: [{group: a, name: y, qos: BE}]", "groups[0].name: y: expected namespace/name"),
        (
            "groups: [{group: a, name: x/y, qos: LS, requests: {cpu: lots}}]",
            "groups[0].requests.cpu: lots: expected a Kubernetes quantity",
        ),
        (
            "groups: [{group: a, name: x/y, qos: LS, objective_p99_ms: -1}]",
            "groups[0].objective_p99_ms: -1.0: expected milliseconds, 0.001 to 3600000",
        ),
        (
            "groups: [{group: a, name: x/y, qos: LS, objective_p99_ms: 0.0001}]",
            "groups[0].objective_p99_ms: 0.0001: expected milliseconds, 0.001 to 3600000",
        ),
        ("groups: [{group: a, name: x/y, qos: BE}, {group: a, name: x/z, qos: BE}]", "groups: group: a: expected each"),
        ("reports: {urls: [ftp://x]}", "reports.urls: ftp://x: expected http:// or https:// URLs"),
        ("reports: {urls: http://x}", "reports.urls: http://x: expected a list"),
        ("reports: {period_s: 0}", "reports.period_s: 0.0: expected seconds, 1 to 3600"),
        ("evictions: {per_minute: -1}", "evictions.per_minute: -1: expected 0 or more"),
        ("listen: 0.0.0.0:80", "listen: 0.0.0.0:80: expected a loopback address or a unix socket; insecure"),
        ("listen: unix:agent.sock", "listen: unix:agent.sock: expected unix: and an absolute path"),
        ("listen: localhost", "listen: localhost: expected HOST:PORT"),
        ("listen: 127.example.org:80", "listen: 127.example.org:80: expected a loopback address"),
        ("- a", "agent.yaml: ['a']: expected a mapping of fields to values"),
        ("a: [", "expected YAML"),
    ],
)
def test_a_wrong_file_is_one_line(text: str, line: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(text, tmp_path)
    said = str(caught.value)
    assert said.startswith(str(tmp_path / "agent.yaml"))
    assert "\n" not in said
    assert line in said


ROOT = Path(__file__).parents[6]


@pytest.mark.parametrize("name", ["examples/12-agent.toml", "deploy/node/agent.yaml"])
def test_the_shipped_files_are_valid(name: str) -> None:
    config = read_config(ROOT / name)
    assert config.mode is AgentMode.ACT
    assert {pod.best_effort for pod in config.pods()} == {True, False}


def test_the_guide_documents_every_field() -> None:
    guide = (ROOT / "docs" / "guide" / "agent.md").read_text()
    missing = [field.name for field in fields(AgentConfig) if f"`{field.name}`" not in guide]
    assert missing == []


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="expected a readable file"):
        read_config(tmp_path / "none.yaml")


def test_the_node_is_named_by_its_cluster_where_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "worker-7.example")
    assert AgentConfig().node == "worker-7.example"
    assert AgentConfig(node="other").node == "other"
    monkeypatch.setenv("NODE_NAME", "")
    assert AgentConfig().node == socket.gethostname()


def test_pools_for_evictions_can_be_configured(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(
        "policies: {cpu_eviction: {pools_cpu_m: [[requests, 4000], [batch requests, 2000]], allocatable: "
        "{threshold_percent: 90, lower_percent: 80, priority_threshold: 5999}}}"
    )
    told = read_config(file).policies.cpu_eviction
    assert told is not None
    assert dict(told.pools_cpu_m or ()) == {Currency.REQUESTED: 4000, Currency.REQUESTED_BATCH: 2000}
    assert told.allocatable is not None


def test_the_spelling_of_earlier_versions_is_taken_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "agent.yaml"
    path.write_text("policies: {best_effort_cpu: {suppress: {threshold_pct: 80}}, burst: {pool_threshold_pct: 70}}")
    policies = read_config(path).policies
    assert policies.best_effort_cpu is not None
    assert policies.best_effort_cpu.suppress.threshold_percent == 80
    assert policies.burst is not None
    assert policies.burst.pool_threshold_percent == 70
    assert "policies.best_effort_cpu.suppress.threshold_pct is called threshold_percent now" in caplog.text
