"""`cotenant profile perf`: figures of one command, and their way to a collector."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace

from cotenant.drivers.otlp.metric_encoding import EXPORT_PATH, MetricPoint, ResourceMetrics, encode_metrics
from cotenant.drivers.perf.command import run_command
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.command_figures import CommandFigures

_PREFIX = "cotenant.command."


def labels_of(written: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE each. Raises `InvalidInput`."""
    found = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not name or not equals or name in found:
            raise InvalidInput("--label", text, "NAME=VALUE, each name once")
        found[name] = value
    return found


def measured(
    command: tuple[str, ...], environment: Mapping[str, str], labels: Mapping[str, str], stdout: int | None = None
) -> CommandFigures:
    """Run the command. Raises `InvalidInput`."""
    return replace(run_command(command, environment, stdout), labels=labels)


def send(found: CommandFigures, collector: str) -> None:
    """To a collector, as gauges of one resource: the rank, guid and labels are its attributes.

    Raises `Transient`, `Permanent`.
    """
    asyncio.run(_send(collector, encode_metrics([resource(found)], "cotenant", time.time())))


def resource(found: CommandFigures) -> ResourceMetrics:
    """The figures, without those that are missing."""
    attributes = {**found.labels, "process.command": found.command[0]}
    if found.rank is not None:
        attributes["mpi.rank"] = str(found.rank)
    if found.guid:
        attributes["service.instance.id"] = found.guid
    figures: list[tuple[str, str, float | None]] = [
        ("exit_status", "1", found.status),
        ("duration", "s", found.wall_us / 1e6),
        ("cpu.user", "s", found.user_us / 1e6),
        ("cpu.system", "s", found.system_us / 1e6),
        ("memory.max_resident", "By", found.max_resident_bytes),
        ("context_switches.voluntary", "1", found.voluntary_switches),
        ("context_switches.involuntary", "1", found.involuntary_switches),
        ("faults.minor", "1", found.minor_faults),
        ("faults.major", "1", found.major_faults),
        ("io.read", "By", found.read_bytes),
        ("io.written", "By", found.written_bytes),
        *((f"stalled.{name}", "s", value / 1e6) for name, value in found.stalled_us.items()),
        *((f"perf.{name}", "1", value) for name, value in found.counters.items()),
    ]
    points = [MetricPoint(_PREFIX + name, unit, value) for name, unit, value in figures if value is not None]
    return ResourceMetrics(attributes, points)


async def _send(url: str, body: bytes) -> None:
    from cotenant.drivers.otlp.collector import OtlpCollector

    collector = OtlpCollector(url)
    try:
        await collector.send(EXPORT_PATH, body)
    finally:
        await collector.close()
