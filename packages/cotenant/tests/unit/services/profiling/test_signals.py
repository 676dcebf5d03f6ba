"""What a replica suffers as one number a window, from readings that are given."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.machine.counters import GroupCounters, Pressure, Stall
from cotenant.services.profiling import signals
from cotenant.services.profiling.signals import LatencyFile, ObjectiveSignal, RunDelay, StallSignal


class Readings:
    """CPU time and wait of a group, one pair a read; None = the group is gone."""

    def __init__(self, *pairs: tuple[int | None, int | None] | None) -> None:
        self._pairs: Iterator[tuple[int | None, int | None] | None] = iter(pairs)
        self._waited: int | None = None

    def read(self, groups: tuple[str, ...], now_us: int = -1) -> Any:
        """As both readers."""
        assert groups == ("g",)
        if now_us >= 0:
            return {} if self._waited is None else {"g": self._waited}
        pair = next(self._pairs)
        if pair is None:
            return ()
        self._waited = pair[1]
        return (GroupCounters("g", cpu_us=pair[0]),)


def delays(*pairs: tuple[int | None, int | None] | None) -> list[float | None]:
    readings = cast(Any, Readings(*pairs))
    signal = RunDelay(readings, readings, "g")
    return [None if isnan(found := signal.read()) else found for _ in pairs[1:]]


def test_wait_per_use_is_of_the_time_since_the_last_read() -> None:
    assert delays((0, 0), (10_000, 5_000), (30_000, 5_000), (31_000, 15_000)) == [1.5, 1.0, 11.0]
    assert delays((0, 0), (999, 5_000), (1_999, 5_000)) == [None, 1.0]  # less than a millisecond of use says nothing
    assert delays((0, 500), (1_000, 400)) == [1.0]  # tasks that ended have taken their waits with them


def test_without_a_reading_there_is_no_number_and_the_next_has_none_to_compare_with() -> None:
    assert delays((0, 0), (None, 5), (20_000, 10), (40_000, 20_010)) == [None, None, 2.0]
    assert delays((0, 0), (10_000, None), (20_000, 10), (40_000, 20_010)) == [None, None, 2.0]
    with pytest.raises(Permanent, match="/g"):
        delays((0, 0), None)


def test_time_over_time_without_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    times_us = iter([0, 1_000_000, 2_000_000, 2_000_000, 3_000_000, 9_000_000])
    monkeypatch.setattr(signals, "monotonic_ns", lambda: next(times_us) * 1000)
    stalls: Iterator[int | None] = iter([0, 500_000, 1_500_000, 1_500_000, None, 1_500_000, 1_500_000])

    def read(groups: tuple[str, ...]) -> tuple[GroupCounters, ...]:
        some = next(stalls)
        return (GroupCounters("g", pressure=Pressure(cpu=None if some is None else Stall(some, 0))),)

    signal = StallSignal(cast(Any, SimpleNamespace(read=read)), "g")
    assert signal.read() == pytest.approx(2.0)  # half of the time
    assert signal.read() == pytest.approx(1000.0)  # all of it: a bound
    assert isnan(signal.read())  # no time has gone by
    assert isnan(signal.read())  # not known
    assert isnan(signal.read())  # nothing to compare with
    assert signal.read() == pytest.approx(1.0)


def test_new_whole_lines_of_a_file_count_and_their_median_is_read(tmp_path: Path) -> None:
    path = tmp_path / "latency"
    path.write_text('{"p99_us": 9000}\n')
    signal = LatencyFile(path, 5.0)
    try:
        assert signal.objective == 5.0
        assert isnan(signal.read())  # what was there before
        with path.open("a") as file:
            file.write('{"p99_us": 1000}\n\n{"p99_us": 4000}\n{"p99_us": 3500}\n{"p99_')
            file.flush()
            assert signal.read() == 3.5
            file.write('us": 2000}\n')
            file.flush()
            assert signal.read() == 2.0
            assert isnan(signal.read())
            for wrong in ("{}", "[1]", '{"p99_us": "x"}', '{"p99_us": null}', "half"):
                file.write(f"{wrong}\n")
                file.flush()
                with pytest.raises(InvalidInput, match="--latency-file"):
                    signal.read()
    finally:
        signal.close()
    with pytest.raises(InvalidInput, match="--latency-file"):
        LatencyFile(tmp_path / "none", None)


@pytest.mark.parametrize(
    ("pod", "worst", "read"),
    [
        ("ns/a", None, 3.0),
        ("ns/b", None, None),
        ("ns/c", None, None),
        ("", None, None),
        ("", SimpleNamespace(pod="ns/a", p99_ms=7.0), 7.0),
    ],
)
def test_one_replica_of_an_objective_or_the_worst(pod: str, worst: object, read: float | None) -> None:
    rows = [SimpleNamespace(pod="ns/b", p99_ms=None), SimpleNamespace(pod="ns/a", p99_ms=3.0)]
    view = SimpleNamespace(below_ms=20.0, replicas=rows, worst_replica=worst)
    asked: list[tuple[str, str]] = []

    def objective(namespace: str, name: str) -> object:
        asked.append((namespace, name))
        return view

    signal = ObjectiveSignal(cast(Any, SimpleNamespace(objective=objective)), "shop/fast", pod)
    found = signal.read()
    assert (signal.objective, None if isnan(found) else found) == (20.0, read)
    assert asked == [("shop", "fast")] * 2


@pytest.mark.parametrize("name", ["", "fast", "shop/", "/fast"])
def test_an_objective_has_a_namespace(name: str) -> None:
    with pytest.raises(InvalidInput, match="--objective"):
        ObjectiveSignal(cast(Any, None), name, "")
