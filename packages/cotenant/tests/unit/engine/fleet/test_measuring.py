"""Load averages, targets of Prometheus, what waits to be forwarded, and the judgement of Test 1."""

from __future__ import annotations

from math import exp, pi, sin

from cotenant.engine.fleet.backlog import Backlog, Export
from cotenant.engine.fleet.binding_trial import TrialCpuSample, correlation, judge
from cotenant.engine.fleet.discovery import targets
from cotenant.engine.fleet.load_average import LoadAverage
from cotenant.engine.fleet.registry import HostRegistry
from cotenant.model.fleet.host import Heartbeat, Registration


def test_a_load_average_goes_to_what_is_counted() -> None:
    load = LoadAverage()
    assert load.averages is None
    load.count(0, 0.0)
    for second in range(1, 61):
        load.count(4, float(second))
    assert load.averages is not None
    assert abs(load.averages[0] - 4 * (1 - exp(-1))) < 1e-9
    assert abs(load.averages[2] - 4 * (1 - exp(-60 / 900))) < 1e-9


def test_exporters_of_hosts_that_are_there_are_targets() -> None:
    registry = HostRegistry()
    for guid in ("b", "a", "c", "d"):
        registry.register(Registration(guid, f"host-{guid}", "1", tags=("edge",)), 0.0)
        exporters = () if guid == "d" else (f"10.0.0.1:{9000 + ord(guid)}",)
        registry.beat(Heartbeat(guid, 1, 0.0, exporters=exporters), 0.0)
    registry.leave("c")
    found = targets(registry.hosts()).groups
    assert [group["targets"] for group in found] == [["10.0.0.1:9097"], ["10.0.0.1:9098"]]
    assert found[0]["labels"]["host"] == "host-a"
    assert found[0]["labels"]["__meta_cotenant_tags"] == ",edge,"
    assert "region" not in found[0]["labels"]
    registry.tick(5.0)
    assert len(targets(registry.hosts()).groups) == 2  # suspect
    registry.tick(11.0)
    assert targets(registry.hosts()).groups == ()  # away


def test_the_oldest_of_a_backlog_is_dropped_and_not_confirmed_later() -> None:
    backlog = Backlog(100)
    exports = [Export("/v1/traces", bytes(40), "", "") for _ in range(3)]
    backlog.put(exports[0])
    sending = backlog.first()
    backlog.put(exports[1])
    backlog.put(exports[2])
    assert (backlog.dropped, backlog.size_bytes, len(backlog)) == (1, 80, 2)
    assert sending is not None
    backlog.done(sending)
    assert len(backlog) == 2
    backlog.done(exports[1])
    assert backlog.first() is exports[2]
    backlog.put(Export("/v1/traces", bytes(101), "", ""))
    assert (backlog.dropped, len(backlog)) == (3, 0)


def wave(scale: float, at_s: float) -> TrialCpuSample:
    return TrialCpuSample(at_s, round(scale * (500 + 300 * sin(2 * pi * at_s / 20))))


def test_test_1_is_disturbed_and_restored() -> None:
    alone = [wave(1.0, at + 0.4) for at in range(40)]
    flat = [TrialCpuSample(at + 60.4, 480 + at % 2) for at in range(40)]
    regulated = [wave(0.97, at + 120.4) for at in range(40)]
    hog = ([TrialCpuSample(0.0, 10)], [TrialCpuSample(60.0, 500)], [TrialCpuSample(120.0, 450)])
    found = judge(("alone", "together", "regulated"), (alone, flat, regulated), hog, 20.0)
    assert (found.is_disturbed, found.is_restored) == (True, True)
    assert 590 < found.phases[0].swing_milli < 600
    assert 0.85 < found.hog_share < 0.95
    worse = judge(("alone", "together", "regulated"), (alone, flat, flat), hog, 20.0)
    assert not worse.is_restored
    same = judge(("alone", "together", "regulated"), (alone, alone, alone), hog, 20.0)
    assert not same.is_disturbed


def test_correlation_of_what_does_not_vary_is_none() -> None:
    assert correlation([1.0, 2.0], [3.0, 3.0]) == 0.0
    assert correlation([1.0], [1.0]) == 0.0
    assert round(correlation([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]), 9) == 1.0
