"""Figures of real commands; what they say is checked against what the commands do."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from cotenant.cli.ask.profile_perf_showing import show_command
from cotenant.cli.main import main
from cotenant.drivers.perf.command import run_command
from cotenant.drivers.perf.opening import PerfEvent
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.command_figures import CommandFigures, rank_of
from cotenant.services.profiling.command import labels_of, resource

TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")
GRANDCHILD = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]]); sys.exit(3)"
WRITES = "import time\nfor _ in range(50): time.sleep(0.0001)\nopen({path!r}, 'w').write('x' * 3_000_000)"


def test_what_a_command_and_its_children_do_is_counted(tmp_path: Path) -> None:
    child, before_us = WRITES.format(path=str(tmp_path / "out")), _stolen_us()
    found = run_command((sys.executable, "-c", GRANDCHILD, child), os.environ)
    stolen_us = _stolen_us() - before_us + 3 * TICK_US  # a task's clock has it, its CPU time has not
    assert found.status == 3
    assert found.user_us > 0
    assert found.wall_us > 5000
    assert found.voluntary_switches >= 50  # the grandchild's sleeps
    assert found.written_calls_bytes is not None
    assert found.written_calls_bytes >= 3_000_000
    assert found.minor_faults > 100
    names = {event.name.lower() for event in PerfEvent}
    assert set(found.counters) | {gap.what for gap in found.gaps} >= names
    assert not set(found.counters) & {gap.what for gap in found.gaps}
    if (
        "task_clock" in found.counters
    ):  # of all of them, from the exec on: about the CPU time, however noisy the machine
        assert found.counters["task_clock"] <= (found.user_us + found.system_us + stolen_us + 20_000) * 1000
        assert found.counters["page_faults"] > 100


def _stolen_us() -> int:
    """What interrupts and the hypervisor took from this machine's CPUs, each in whole ticks."""
    irq, softirq, steal = Path("/proc/stat").read_text().split(maxsplit=9)[6:9]
    return (int(irq) + int(softirq) + int(steal)) * TICK_US


def test_a_signal_and_a_missing_program() -> None:
    assert run_command(("/bin/sh", "-c", "kill -9 $$"), os.environ).status == 137
    with pytest.raises(InvalidInput, match="COMMAND: no-such-program"):
        run_command(("no-such-program",), os.environ)


def test_arguments_and_descriptors_reach_the_command_as_they_are(capfd: pytest.CaptureFixture[str]) -> None:
    listing = "import os, sys; print(sys.argv[1:], sorted(map(int, os.listdir('/proc/self/fd')))[:3], sys.stdin.read())"
    reading, writing = os.pipe()
    os.write(writing, b"typed")
    os.close(writing)
    kept = os.dup(0) if _is_open(0) else None
    os.dup2(reading, 0)
    try:
        run_command((sys.executable, "-c", listing, "a b", "$HOME", "--", "'"), os.environ)
    finally:
        if kept is not None:
            os.dup2(kept, 0)
            os.close(kept)
        os.close(reading)
    assert capfd.readouterr().out == "['a b', '$HOME', '--', \"'\"] [0, 1, 2] typed\n"


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("environment", "rank"),
    [
        ({"OMPI_COMM_WORLD_RANK": "2", "SLURM_PROCID": "0"}, 2),
        ({"PMI_RANK": "1"}, 1),
        ({"SLURM_PROCID": "7"}, 7),
        ({"PMI_RANK": "x"}, None),
        ({}, None),
    ],
)
def test_ranks(environment: dict[str, str], rank: int | None) -> None:
    assert rank_of(environment) == rank


def test_labels() -> None:
    assert labels_of(("a=1", "b=x=y")) == {"a": "1", "b": "x=y"}
    for wrong in (("a",), ("=1",), ("a=1", "a=2")):
        with pytest.raises(InvalidInput, match="--label"):
            labels_of(wrong)


FIGURES = CommandFigures(
    ("app",), 0, 2_000_000, 1_000_000, 500_000, 1, 2, 3, 4,
    counters={"cycles": 30, "instructions": 10}, stalled_us={"io": 5}, pressure_of="the machine",
    rank=3, guid="cam-1", labels={"job": "a"},
)  # fmt: skip


def test_metrics_name_rank_guid_and_labels_and_leave_out_what_is_missing() -> None:
    made = resource(FIGURES)
    assert made.attributes == {"job": "a", "process.command": "app", "mpi.rank": "3", "service.instance.id": "cam-1"}
    values = {point.name.removeprefix("cotenant.command."): point.value for point in made.points}
    assert (values["cpu.user"], values["perf.cycles"], values["stalled.io"]) == (1.0, 30, 5e-6)
    assert "io.read" not in values
    assert "memory.max_resident" not in values


def test_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_command(FIGURES, False)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "rank 3, status 0, job=a" in shown.err
    assert "0.75 CPUs" in shown.err
    assert "cycles an instruction     3.00" in shown.err


def test_with_json_only_the_object_is_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "perf", "--json", "--label", "a=b", "--", "sh", "-c", "echo hi; exit 4"]) == 4
    shown = capfd.readouterr()
    assert json.loads(shown.out)["labels"] == {"a": "b"}
    assert shown.err == "hi\n"


@pytest.mark.slow
def test_figures_reach_a_collector(capfd: pytest.CaptureFixture[str]) -> None:
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        came.append(await reader.readexactly(size))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async def play() -> int:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        words = ["profile", "perf", "--otlp", f"http://127.0.0.1:{port}", "--label", "job=a", "--", "true"]
        status = await asyncio.to_thread(main, words)
        server.close()
        return status

    assert asyncio.run(play()) == 0
    (body,) = came
    attributes = json.loads(body)["resourceMetrics"][0]["resource"]["attributes"]
    assert {"key": "job", "value": {"stringValue": "a"}} in attributes
    assert main(["profile", "perf", "--otlp", "http://127.0.0.1:1", "--", "true"]) == 0
    assert "the figures were not sent" in capfd.readouterr().err
