"""What each process refuses before it starts, and where the bounds of its numbers are."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.assess import assess_arguments as assess
from cotenant.services.console import console_arguments as console
from cotenant.services.credit import credit_arguments as credit
from cotenant.services.extender import extender_arguments as extender
from cotenant.services.manager import manager_arguments as manager
from cotenant.services.rebalancer import rebalancer_arguments as rebalancer
from cotenant.services.scheduler import scheduler_arguments as scheduler
from cotenant.services.traces import traces_arguments as traces
from cotenant.services.webhook import webhook_arguments as webhook

A, B = Path("/nowhere/a.pem"), Path("/nowhere/b.pem")
PROCESSES: dict[str, tuple[Callable[..., Any], Callable[[Any], object]]] = {
    "assess": (assess.ReadArguments, assess.check),
    "console": (console.ConsoleArguments, console.check),
    "credit": (credit.CreditArguments, credit.check),
    "extender": (extender.ExtenderSettings, extender.check),
    "manager": (manager.ManagerArguments, manager.check),
    "plan": (rebalancer.PlanArguments, rebalancer.check_plan),
    "rebalancer": (rebalancer.RunArguments, rebalancer.check),
    "scheduler": (scheduler.SchedulerArguments, scheduler.check),
    "traces": (traces.TraceSettings, traces.check),
    "webhook": (webhook.WebhookSettings, webhook.check),
}
# process, what is given, the option that the refusal names
TOGETHER: list[tuple[str, dict[str, Any], str]] = [
    ("assess", {"watch": "5m", "prometheus": "http://p:9090"}, "--watch"),
    ("assess", {"watch": "soon"}, "--watch"),
    ("assess", {"matchers": ("cluster",)}, "--prometheus-match"),
    ("assess", {"matchers": ("=eu",)}, "--prometheus-match"),
    ("assess", {"headers": ("X-Scope",)}, "--prometheus-header"),
    ("assess", {"prometheus": "http://p:9090", "step_s": 61}, "--step"),
    ("console", {"tls_cert": A}, "--tls-cert, --tls-key"),
    ("console", {"tls_key": A}, "--tls-cert, --tls-key"),
    ("console", {"listen": "10.0.0.1:1"}, "--listen"),
    ("console", {"listen": "unix:/run/x"}, "--listen"),
    ("console", {"terminals": True}, "--terminals"),
    ("console", {"results": A}, "--results"),
    ("console", {"token_file": A}, "--token-file"),
    *[("console", {f"{name}_ca": A}, f"--{name}-ca") for name in ("scheduler", "traces", "credit", "fleet")],
    ("credit", {"listen": "unix:/run/x"}, "--listen"),
    ("credit", {"token_file": A}, "--token-file"),
    ("extender", {"tls_cert": A}, "--tls-cert, --tls-key"),
    ("extender", {"tls_key": A}, "--tls-cert, --tls-key"),
    ("extender", {"client_ca": A}, "--client-ca"),
    ("extender", {"health_tls": True, "health_listen": ":1"}, "--health-tls"),
    ("extender", {"health_tls": True, "health_listen": "", "tls_cert": A, "tls_key": B}, "--health-tls"),
    ("extender", {"listen": "10.0.0.1:1"}, "--listen"),
    ("extender", {"listen": "10.0.0.1:1", "tls_cert": A, "tls_key": B}, "--listen"),
    ("extender", {"profile": "best"}, "--profile"),
    ("extender", {"profile": "least-allocated"}, "--profile least-allocated"),
    ("extender", {"profile": "least-allocated", "credit": "http://c", "cluster": True}, "--credit"),
    ("extender", {"bind": True}, "--bind"),
    ("extender", {"credit": "http://c"}, "--credit"),
    ("extender", {"report_token_file": A}, "--report-token-file"),
    ("manager", {"listen": "unix:/run/x"}, "--listen"),
    ("manager", {"config_name": ""}, "--config-name"),
    ("manager", {"config_namespace": "a/b"}, "--config-namespace"),
    ("manager", {"tls_service": "a.b.svc", "tls_cert": A, "tls_key": B}, "--tls-service"),
    ("manager", {"authorities_in": "ns/name"}, "--authorities-in"),
    ("plan", {"config": A}, "--config"),
    ("plan", {"load_aware": A}, "--load-aware"),
    ("plan", {"prices": A}, "--prices"),
    ("plan", {"profile": "best"}, "--profile"),
    ("rebalancer", {"config": A}, "--config"),
    ("rebalancer", {"load_aware": A}, "--load-aware"),
    ("rebalancer", {"listen": "unix:/run/x"}, "--listen"),
    ("scheduler", {"listen": "unix:/run/x"}, "--listen"),
    ("scheduler", {"shadow_of": ("a",)}, "--shadow-of"),
    ("scheduler", {"shadow": True, "seal": True}, "--seal"),
    ("scheduler", {"shadow": True, "report_account": "ns/name"}, "--report-account"),
    ("scheduler", {"shadow": True, "scheduler_names": ("mine",)}, "--scheduler-name"),
    ("scheduler", {"shards": 2, "leader_elect": False}, "--no-leader-elect"),
    ("scheduler", {"shards": 2, "shadow": True}, "--shards"),
    ("scheduler", {"default_spread": "all"}, "--default-spread"),
    ("scheduler", {"load_aware": A}, "--load-aware"),
    ("scheduler", {"leader_elect_renew_deadline_s": 1e6}, "--leader-elect-lease-s, --leader-elect-renew-deadline-s"),
    ("traces", {"tls_cert": A}, "--tls-cert, --tls-key"),
    ("traces", {"tls_key": A}, "--tls-cert, --tls-key"),
    ("traces", {"client_ca": A}, "--client-ca"),
    ("traces", {"grpc": "unix:/run/x"}, "--grpc"),
    ("traces", {"request_moves": True}, "--request-moves"),
    ("traces", {"report_account": "ns/name"}, "--report-account"),
    ("traces", {"report_account": "name", "cluster": True}, "--report-account"),
    ("traces", {"review_senders": True}, "--review-senders"),
    ("traces", {"forward": "http://c:4318"}, "--forward"),
    ("traces", {"jaeger_udp": "unix:/run/x"}, "--jaeger-udp"),
    ("traces", {"jaeger_udp": "10.0.0.1:6831"}, "--jaeger-udp"),
    ("traces", {"http": "10.0.0.1:4318"}, "--http"),
    ("traces", {"grpc": "10.0.0.1:4317"}, "--grpc"),
    ("traces", {"collectors": ("ns/name",)}, "--collector"),
    ("webhook", {"listen": "unix:/run/x"}, "--listen"),
    ("webhook", {"tls_cert": A}, "--tls-cert, --tls-key"),
    ("webhook", {"tls_key": A}, "--tls-cert, --tls-key"),
    ("webhook", {"ca_file": A}, "--ca-file"),
    ("webhook", {"failure_policy": "Always"}, "--failure-policy"),
    ("webhook", {"url": "http://w", "register": True}, "--url"),
    ("webhook", {"url": "https://w?a=1", "register": True}, "--url"),
    ("webhook", {"url": "https://w#a", "register": True}, "--url"),
    ("webhook", {"url": "https://w", "register": False}, "--url"),
    ("webhook", {"register": True, "tls_cert": A, "tls_key": B}, "--register"),
    ("webhook", {"agent_account": "name"}, "--agent-account"),
]
FINE: list[tuple[str, dict[str, Any]]] = [
    ("assess", {"matchers": ("a=1", "b=c=d"), "headers": ("X-Scope: eu", "@/a/file")}),
    ("console", {"listen": "10.0.0.1:1", "insecure": True, "fleet": "local", "terminals": True}),
    ("console", {"listen": "10.0.0.1:1", "tls_cert": A, "tls_key": B, "agents": "https://{node}:10262"}),
    ("extender", {"listen": "10.0.0.1:1", "insecure": True, "profile": "founding-ledger"}),
    ("extender", {"profile": "least-allocated", "bind": True, "cluster": True}),
    ("extender", {"profile": "least-allocated", "kubeconfig": A}),
    ("extender", {"profile": "least-allocated", "context": "c"}),
    ("extender", {"tls_cert": A, "tls_key": B, "health_listen": ":1", "health_tls": True}),
    ("manager", {"authorities_in": "ns/name", "tls_service": "a.b.svc"}),
    ("scheduler", {"shadow": True}),
    ("scheduler", {"shadow": True, "shadow_of": ("a",)}),
    ("scheduler", {"shards": 2}),
    ("scheduler", {"qps": inf}),
    ("traces", {"request_moves": True, "context": "c"}),
    ("traces", {"review_senders": True, "kubeconfig": A, "report_account": "ns/name"}),
    ("traces", {"forward": "http://c:4318", "keep_spans_per_s": 1.0}),
    ("traces", {"jaeger_udp": "10.0.0.1:6831", "insecure": True}),
    ("traces", {"http": "10.0.0.1:1", "grpc": "10.0.0.1:2", "insecure": True}),
    ("webhook", {"url": "https://w:443", "register": True}),
    ("webhook", {"register": True, "tls_cert": A, "tls_key": B, "ca_file": A}),
]
# process, field, option, the least and the most that are taken, what is refused
NUMBERS: list[tuple[str, str, str, tuple[float, ...], tuple[float, ...]]] = [
    ("assess", "limit_qps", "--limit-qps", (0.1, 1e9), (0, -1, nan, inf)),
    ("assess", "timeout_s", "--timeout-s", (0.1, 1e9), (0, -1, nan, inf)),
    ("assess", "days", "--days", (0.1, 400), (0, 400.1, nan)),
    ("console", "period_s", "--period-s", (0.5, 600), (0.4, 600.1, nan, inf)),
    ("credit", "period_s", "--period-s", (1, 86_400), (0, 86_401)),
    ("credit", "bound", "--bound", (1, 10**9), (0, 10**9 + 1)),
    ("credit", "half_life_s", "--half-life-s", (60,), (59,)),
    ("extender", "score_max", "--score-max", (1, 100), (0, 101)),
    ("manager", "writes_per_s", "--writes-per-s", (0.1,), (0, -1, nan, inf)),
    ("plan", "within_s", "--within-s", (0.1,), (0, -1, nan, inf)),
    ("rebalancer", "interval_s", "--interval-s", (0.1,), (0, -1, nan, inf)),
    ("rebalancer", "watch_s", "--watch-s", (0.1,), (0, -1, nan, inf)),
    ("scheduler", "quota_revoke_after_s", "--quota-revoke-after-s", (0, 1), (-1, nan, inf)),
    ("scheduler", "shards", "--shards", (1,), (0, -1, 10_000)),
    ("scheduler", "binds_in_flight", "--binds-in-flight", (1,), (0,)),
    ("scheduler", "burst", "--burst", (1,), (0.9, nan, inf)),
    ("scheduler", "qps", "--qps", (0.1,), (0, -1, nan)),
    ("scheduler", "notices_per_s", "--notices-per-s", (0.1,), (0, nan, inf)),
    ("scheduler", "predicted_use_risk_pct", "--predicted-use-risk", (0.1, 49.9), (0, 50, nan)),
    ("traces", "max_skew_s", "--max-skew-s", (0, 3600), (-1, 3601, nan)),
    ("traces", "keep_spans_per_s", "--keep-spans-per-s", (0, 1e6), (-1, 1e6 + 1, nan)),
    ("traces", "head_spans_per_s", "--head-spans-per-s", (0, 1e6), (-1, 1e6 + 1, nan)),
]
# process, field, option, what is taken, what else is given
URLS: list[tuple[str, str, str, str, dict[str, Any]]] = [
    ("assess", "prometheus", "--prometheus", "http", {}),
    *[("console", name, f"--{name}", "http", {}) for name in ("scheduler", "traces", "credit", "agents")],
    ("console", "fleet", "--fleet", "nats", {}),
    ("scheduler", "otlp_traces", "--otlp-traces", "http", {}),
    ("traces", "forward", "--forward", "http", {"keep_spans_per_s": 1.0}),
    ("webhook", "url", "--url", "https", {"register": True}),
]


def judged(process: str, **given: Any) -> str:
    """What is said of the arguments; empty where they are taken."""
    of, check = PROCESSES[process]
    try:
        check(of(**given))
    except InvalidInput as error:
        return error.field
    return ""


@pytest.mark.parametrize("process", PROCESSES)
def test_nothing_has_to_be_given(process: str) -> None:
    assert not judged(process)


@pytest.mark.parametrize(("process", "given", "option"), TOGETHER)
def test_what_does_not_go_together_is_refused_by_its_option(process: str, given: dict[str, Any], option: str) -> None:
    assert judged(process, **given).startswith(option)


@pytest.mark.parametrize(("process", "given"), FINE)
def test_what_goes_together_is_taken(process: str, given: dict[str, Any]) -> None:
    assert not judged(process, **given)


@pytest.mark.parametrize(("process", "field", "option", "taken", "refused"), NUMBERS)
def test_numbers_are_taken_up_to_their_bounds(
    process: str, field: str, option: str, taken: tuple[float, ...], refused: tuple[float, ...]
) -> None:
    for value in taken:
        assert not judged(process, **{field: value})
    for value in refused:
        assert judged(process, **{field: value}) == option


@pytest.mark.parametrize(("process", "field", "option", "scheme", "more"), URLS)
def test_only_urls_that_can_be_connected_to_are_taken(
    process: str, field: str, option: str, scheme: str, more: dict[str, Any]
) -> None:
    for host in ("h", "h:1", "[::1]:65535"):
        assert not judged(process, **{field: f"{scheme}://{host}"}, **more)
    for host in ("", ":1", "[::1", "h:0", "h:65536", "h:x"):
        assert judged(process, **{field: f"{scheme}://{host}"}, **more) == option
    for text in ("h:1", "ftp://h:1", "[", "//h:1"):
        assert judged(process, **{field: text}, **more) == option


def test_a_risk_and_a_file_of_an_assessment(tmp_path: Path) -> None:
    for risk in (0.01, 20):
        assess.check_risk(risk)
    for risk in (0.009, 20.1, nan):
        with pytest.raises(InvalidInput, match="--risk-percent"):
            assess.check_risk(risk)
    assess.check_output("--out", tmp_path / "report.html")
    for path in (tmp_path, tmp_path / "none" / "report.html"):
        with pytest.raises(InvalidInput, match="--out"):
            assess.check_output("--out", path)


def test_pairs_are_taken_apart_at_the_first_mark_and_values_are_not_shown() -> None:
    assert assess.pairs_of("--x", ("a = 1", "b=c=d"), "=") == {"a": "1", "b": "c=d"}
    with pytest.raises(InvalidInput) as refused:
        assess.pairs_of("--x", (" =secret",), "=")
    assert "secret" not in str(refused.value)
