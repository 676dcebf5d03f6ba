"""The bounds of the agent's settings: a value at a bound is taken, the next one beyond it is refused with its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.services.agent_settings.config import (
    MAX_GROUPS,
    MAX_URLS,
    AgentConfig,
    ClusterAccess,
    ProbeSettings,
    ReportSettings,
    TriggerSettings,
)
from cotenant.services.agent_settings.plain_groups import PlainGroup, WrittenAmounts
from cotenant.services.agent_settings.runtime_hook import RuntimeHook

GROUP = {"group": "a", "name": "x/y", "qos": QoSClass.LS}
URLS = tuple(f"http://h{i}" for i in range(MAX_URLS))


def groups(count: int) -> tuple[PlainGroup, ...]:
    return tuple(PlainGroup(group=f"g{i}", name=f"x/{i}", qos=QoSClass.BE) for i in range(count))


@pytest.mark.parametrize(
    ("form", "rest", "field", "taken", "beyond"),
    [
        (AgentConfig, {"lease_ttl_ms": 3_600_000}, "period_ms", [100, 60_000], [99, 60_001]),
        (AgentConfig, {"period_ms": 1000}, "lease_ttl_ms", [3000, 3_600_000], [2999, 3_600_001]),
        (AgentConfig, {}, "discovery_period_s", [1.0, 600.0], [0.99, 600.1]),
        (AgentConfig, {}, "idle_slice_ms", [0, 100], [-1, 101]),
        (AgentConfig, {}, "node", ["n", "n" * 253], ["", "a\nb"]),
        (AgentConfig, {}, "writable", [("a", "a/b")], [("",), ("a\nb",), ("/a",), ("a", "../b")]),
        (AgentConfig, {}, "best_effort_group", [None, "a"], ["", "/a"]),
        (AgentConfig, {}, "groups", [groups(2), groups(MAX_GROUPS)], [groups(MAX_GROUPS + 1), groups(1) * 2]),
        (AgentConfig, {"writable": ("a",)}, "mode", list(AgentMode), []),
        (ReportSettings, {}, "urls", [(), URLS], [(*URLS, "http://more"), URLS[:1] * 2, ("h",), ("http://u@h",), ("http://h:0x",)]),
        (ReportSettings, {}, "period_s", [1.0, 3600.0], [0.9, 3600.1]),
        (ClusterAccess, {}, "prediction_cold_start_h", [0.0, 720.0], [-0.1, 720.1]),
        (ClusterAccess, {}, "prediction_margin_percent", [0, 1000], [-1, 1001]),
        (ClusterAccess, {}, "node_metric_period_s", [5.0, 3600.0], [4.9, 3600.1]),
        (TriggerSettings, {"stall_ms": 1}, "window_ms", [500, 10_000], [499, 10_001]),
        (TriggerSettings, {"window_ms": 1000}, "stall_ms", [1, 1000], [0, 1001]),
        (ProbeSettings, {}, "late_ms", [0.1, 10_000], [0.09, 10_001]),
        (ProbeSettings, {}, "long_wait_ms", [0, 1, 60_000], [0.5, -1, 60_001]),
        (PlainGroup, GROUP, "objective_p99_ms", [None, 0.001, 3_600_000], [0.0009, 3_600_001]),
        (PlainGroup, GROUP, "name", ["a/b"], ["a", "/b", "a/", "a/b/c", "a/b\n"]),
        (RuntimeHook, {}, "index", ["00", "99"], ["0", "100", "a1"]),
        (RuntimeHook, {"devices": True, "believed_namespaces": ("*",)}, "cdi_kind", ["", "nvidia.com/gpu"],
            ["gpu", "A/b/c"]),
        (AgentSettings, {}, "period_us", [1, 10_000_000], [0, -1]),
        (AgentSettings, {"period_us": 10}, "lease_us", [30], [29]),
        *(
            (AgentSettings, {}, name, [1], [0])
            for name in ("knob_age_us", "answer_us", "refused_us", "stand_off_us", "health_us", "report_window_us",
            "decisions_kept", "series_points", "max_series")
        ),
    ],
)  # fmt: skip
def test_bounds(form: Any, rest: dict[str, Any], field: str, taken: list[Any], beyond: list[Any]) -> None:
    for value in taken:
        assert getattr(form(**{**rest, field: value}), field) == value
    for value in beyond:
        with pytest.raises(InvalidInput) as caught:
            form(**{**rest, field: value})
        assert caught.value.field.startswith(field)


@pytest.mark.parametrize(
    "given",
    [{"cpus": True}, {"devices": True}, {"cdi_kind": "nvidia.com/gpu"}, {"otlp_endpoint": "http://h"}, {"listen": "h"}],
)
def test_what_the_hook_needs_beside_it(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        RuntimeHook(**given)
    whole = {"believed_namespaces": ("*",), "devices": True, "names": True, **given}
    if "listen" not in given:
        RuntimeHook(**whole)


def test_act_needs_a_group_that_may_be_written() -> None:
    with pytest.raises(InvalidInput, match="writable"):
        AgentConfig(mode=AgentMode.ACT)
    assert AgentConfig(mode=AgentMode.ACT, writable=("a",)).mode is AgentMode.ACT


@pytest.mark.parametrize("given", [{"cpu": "-1m"}, {"memory": -1}, {"cpu": -1, "memory": 5}])
def test_amounts_below_nought_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        WrittenAmounts(**given)


def test_listening_beyond_loopback_has_to_be_meant() -> None:
    for listen in ("", "127.0.0.1:1", "[::1]:1", "unix:/run/a.sock"):
        assert AgentConfig(listen=listen).listen == listen
    with pytest.raises(InvalidInput, match="insecure"):
        AgentConfig(listen="0.0.0.0:1")
    assert AgentConfig(listen="0.0.0.0:1", insecure=True).insecure


def test_the_engine_gets_the_files_units() -> None:
    config = AgentConfig(period_ms=500, lease_ttl_ms=2000, reserved=WrittenAmounts(cpu="250m", memory="1Ki"))
    settings = config.settings()
    assert (settings.period_us, settings.lease_us) == (500_000, 2_000_000)
    assert (settings.reserved_cpu_m, settings.reserved_memory_bytes) == (250, 1024)


def test_where_states_of_zones_are() -> None:
    assert AgentConfig().zone_states == Path("/run/cotenant/zones")
    assert AgentConfig(cluster=ClusterAccess(zone_state_dir=Path("/x"))).zone_states == Path("/x")
