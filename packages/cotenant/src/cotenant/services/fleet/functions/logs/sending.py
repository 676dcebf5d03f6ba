"""What is sent to the collector next: lines in order, log after log, until a request is full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from cotenant.drivers.otlp.log_encoding import ResourceLogs, encode_logs
from cotenant.engine.logs.ring import KeptLine
from cotenant.engine.logs.trace_ids import trace_of
from cotenant.model.fleet.logs import ShownLine
from cotenant.services.fleet.functions.logs.kept import KeptLog

_MAX_LINES = 2000
_MAX_BYTES = 2 << 20


@dataclass(frozen=True, slots=True)
class LogBatch:
    """One request, and how far each log is sent with it."""

    body: bytes
    upto: tuple[tuple[KeptLog, int, dict[str, KeptLine]], ...]  # the number, and the last line of each source

    def was_sent(self) -> None:
        """The collector has it, or refuses it for ever."""
        for log, number, last in self.upto:
            log.sent = max(log.sent, number)
            for key, line in last.items():
                if key in log.sources:
                    log.sources[key].sent = line.place


def next_batch(logs: Iterable[KeptLog]) -> LogBatch | None:
    """None where all is sent."""
    resources: list[ResourceLogs] = []
    upto: list[tuple[KeptLog, int, dict[str, KeptLine]]] = []
    left_lines, left_bytes = _MAX_LINES, _MAX_BYTES
    for log in logs:
        if left_lines <= 0 or left_bytes <= 0:
            break
        missed = log.ring.missed(log.sent)
        if missed:
            log.unsent += missed
            log.sent += missed
        lines, upto_number = [], log.sent
        last: dict[str, KeptLine] = {}
        for number, line in islice(log.ring.after(log.sent), left_lines):
            upto_number = number
            if not line.is_old:
                lines.append(ShownLine(line.at_ns, line.stream, line.text, *trace_of(line.text), line.cut))
                last[line.source] = line
                left_bytes -= len(line.text)
                if left_bytes <= 0:
                    break
        if lines:
            left_lines -= len(lines)
            resources.append(ResourceLogs(log.attributes, lines))
            upto.append((log, upto_number, last))
        else:
            log.sent = upto_number  # only old ones
    return LogBatch(encode_logs(resources, "cotenant"), tuple(upto)) if resources else None
