"""`make bench` runs every benchmark of speed, and each says which it is in one line of JSON."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from math import nan
from pathlib import Path
from runpy import run_module

import pytest

ROOT = Path(__file__).parents[2]


# Not of speed, without a line of JSON, or needs what a machine for `make bench` may not have.
APART = {
    "fleet",  # needs a nats-server
    "fleet_logs",
    "fleet_reconnect",
    "gpu",  # needs a GPU
    "gpu_load",
    "agent",
    "apistore",
    "back_test",  # needs the traces
    "capacity",
    "chaos",
    "churn",
    "credit",
    "disk_neighbours",  # minutes
    "evidence",
    "federation",
    "holiday",  # needs the traces
    "idle_plugin",  # a process of nri's
    "lending",
    "listing",  # memory
    "load_forecast",
    "adapting",  # minutes
    "looks",  # needs root
    "machine",
    "move_kinds",
    "moves",
    "nri",
    "objectives",
    "prediction",  # needs the traces
    "ray",
    "right_sizing",  # needs the traces
    "shards",  # minutes
    "shards_quality",  # minutes
    "shards_quota",  # minutes
    "shared_predictions",  # needs the traces
    "soak",
    "soak_chart",
    "stall_load",  # runs in the guest of "stalls"
    "stalls",  # needs a kernel of zones
    "tuning",
}
# They start processes, are servers, measure their own memory or freeze their heap. The others compute, and share this
# process's imports and kernels.
IN_A_PROCESS = {"apistore", "coldstart", "console", "extender", "keeper", "kube", "kube.shards", "nodetick", "traces"}


def test_make_bench_runs_every_benchmark_that_there_is() -> None:
    named = re.search(r"^BENCHES \?= (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert named is not None
    there = {path.stem for path in (ROOT / "bench").glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert set(named.group(1).split()) == (there | {"kube"}) - APART


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "columns"),
    [
        (
            "placement",
            ("--nodes", "100", "--shapes", "8", "--pods", "100", "--repeats", "1"),
            {"pods_per_s", "identical"},
        ),
        ("gangs", ("--nodes", "50", "--members", "4", "--repeats", "1"), {"gang_us", "place_ms", "undo_ms"}),
        (
            "traces",
            ("--repeats", "1", "--rate", "1024", "--seconds", "3", "--series", "20"),
            {"part", "batch"},
        ),
        (
            "apistore",
            ("--nodes", "5", "--pods", "50", "--watchers", "2"),
            {"pod_creates", "binds", "resident_mib", "reopen_s"},
        ),
        ("extender", ("--cycles", "2", "--few", "20", "--many", "40"), {"cpu_ms_call", "p99_ms", "busy"}),
        ("coldstart", ("--repeats", "1"), {"wall_s", "peak_mib"}),
        ("shards_quota", ("--nodes", "6", "--shards", "2", "--seconds", "4"), {"wait_s", "used", "over"}),
        (
            "shards_quality",
            ("--nodes", "12", "--pods", "12", "--at-once", "4", "--shards", "2", "--seeds", "0", "2"),
            {"by_workload", "difference", "busiest"},
        ),
        ("nodetick", ("--groups", "10", "--ticks", "5"), {"tick_ms", "p99_ms", "first_ms"}),
        ("keeper", ("--leases", "5", "--repeats", "2"), {"cpu_ms", "us_each", "syncs"}),
        (
            "quota_pods",
            ("--nodes", "20", "--leaves", "40", "--pods", "50", "--repeats", "1"),
            {"seen_us", "decide_us", "admit_us", "kernel_us"},
        ),
        ("rebalancing", ("--nodes", "40", "--hot", "0.1", "--repeats", "1"), {"moves", "plan_s"}),
        (
            "quota",
            ("--leaves", "40", "--calls", "20", "--pods", "1000"),
            {"ask_lent_us", "check_us", "compiled_us"},
        ),
        ("devices", ("--repeats", "1", "--times", "2", "--nodes", "20", "--pods", "8"), {"decide_us", "granted"}),
        ("claims", ("--repeats", "1", "--nodes", "20", "--pods", "20"), {"claims_per_s", "plain_per_s", "first_ms"}),
        (
            "groups",
            ("--nodes", "40", "--leaves", "8", "--pods", "20", "--members", "4", "--repeats", "1"),
            {"us_a_pod", "adds_us", "all_ms"},
        ),
        ("load_aware", ("--nodes", "40", "--pods", "40", "--repeats", "1"), {"variant", "us_a_pod"}),
        ("predicted_use", ("--nodes", "40", "--pods", "40", "--repeats", "1"), {"variant", "us_a_pod"}),
        ("judging", ("--nodes", "40", "--repeats", "1"), {"pod", "allowed_ms", "preempt_ms"}),
        (
            "console",
            ("--nodes", "20", "--tenants", "4", "--viewers", "3", "--seconds", "1", "--no-map"),
            {"settle_all_ms", "core_share_of_viewers", "frame_kib"},
        ),
        ("why", ("--nodes", "40", "--repeats", "1"), {"nodes"}),
        ("kube", ("creates", "--pods", "50"), {"creates_per_s", "apiserver_rss_mib"}),
        (
            "kube.shards",
            ("--nodes", "6", "--pods", "30", "--schedulers", "0", "2"),
            {"bound_per_s", "server_ms_a_pod", "machine_cores"},
        ),
    ],
)
def test_a_benchmark_prints_one_object_on_one_line(
    name: str,
    arguments: tuple[str, ...],
    columns: set[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name in IN_A_PROCESS:
        command = [sys.executable, "-m", f"bench.{name}", *arguments, "--json"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    else:
        monkeypatch.setattr(sys, "argv", ["", *arguments, "--json"])
        run_module(f"bench.{name}", run_name="__main__", alter_sys=True)
        said = capsys.readouterr().out
    assert said.count("\n") == 1
    told = json.loads(said)
    assert told["bench"] == name.rpartition(".")[2]
    assert told["rows"]
    assert all(columns <= row.keys() for row in told["rows"])
    assert all(row.get("identical", True) for row in told["rows"])


def test_a_soak_fails_for_growth_whose_whole_interval_is_above_the_bound() -> None:
    from bench.soak import Samples, growth, parse, row

    options = parse([])
    hours = [i / 100 for i in range(80)]
    level = [100.0 + i % 3 for i in range(80)]
    rising = [value + 20 * hour for value, hour in zip(level, hours, strict=True)]
    steady = Samples(1, level, level, [30.0] * 80, [2.0] * 80)
    settling = replace(steady, rss_mib=[value + min(i, 20) for i, value in enumerate(level)])  # its heap fragments
    assert growth([row("a", hours, steady)], options) == []
    assert growth([row("a", hours, settling)], options) == []
    assert growth([row("a", hours, replace(steady, heap_mib=[nan] * 80))], options) == []
    for name, samples, said in (
        ("b", replace(steady, rss_mib=rising), "MiB"),
        ("c", replace(steady, heap_mib=rising), "in use"),
        ("d", replace(steady, files=[30.0 + i // 10 for i in range(80)]), "files"),
        ("e", replace(steady, answer_ms=[2.0] * 79 + [options.max_answer_ms + 1]), "/healthz"),
    ):
        (found,) = growth([row(name, hours, samples)], options)
        assert found.startswith(name)
        assert said in found


def test_a_soaks_samples_are_drawn_and_other_files_are_refused(tmp_path: Path) -> None:
    from bench.soak import HEADER, Samples, write
    from bench.soak_chart import chart

    path = tmp_path / "samples.csv"
    for i in range(900):
        for name, heap in (("api <server>", 50.0 + i / 100), ("manager", nan)):
            write(path, Samples(1, [100.0 + i / 10], [heap], [30.0], [2.0]).line(name, i / 450))
    assert path.read_text().startswith(HEADER)
    svg = chart(path)
    assert svg.count("<polyline") == 3  # the manager did not tell its heap
    assert "api &lt;server&gt;: 100 to 190 MiB" in svg
    assert "2.0 h" in svg
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SystemExit, match="no samples"):
        chart(tmp_path / "other.csv")


@pytest.mark.slow
def test_simulated_hours_leave_the_engine_as_it_was() -> None:
    from bench.soak import day, parse

    options = parse(["--day-hours", "0.6", "--day-rate", "1", "--nodes", "4", "--max-mib-hour", "1e6"])
    (figures,), wrong = day(options)
    assert wrong == []
    assert figures["pods"] == figures["bound"] == 2160
