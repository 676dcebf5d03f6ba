"""`cotenant profile code` in its three forms: sampled, as the program sent it, or joined with slow requests."""

from __future__ import annotations

import time
from functools import partial

from cotenant.cli.ask.profile_code_showing import show_code, show_slow
from cotenant.cli.traces.asking import client
from cotenant.drivers.stacks.pstats import read_pstats
from cotenant.engine.profiling.slow_frames import RequestSpan
from cotenant.model.errors import InvalidInput
from cotenant.services.profiling.code import profile_code, sent_profile
from cotenant.services.profiling.output import Output
from cotenant.services.profiling.profiling_arguments import SlowArguments
from cotenant.services.profiling.slow import Requests, SlowQuestion, profile_slow
from cotenant.services.traces.client import TraceClient


def code(
    target: str,
    seconds: int,
    rate: int,
    output: Output,
    idle: bool,
    sent: bool,
    slow: SlowArguments,
    rows: int,
    as_json: bool,
) -> int:
    """Run and print."""
    if slow.slow and (sent or idle):
        raise InvalidInput("--slow", "with --sent or --idle", "by itself: it samples, and counts threads that wait")
    if slow.slow:
        question = slow_question(target, seconds, rate, slow)
        return show_slow(profile_slow(question, requests_by(trace_client(slow)), output), rows, as_json)
    if sent:
        body = trace_client(slow).profile(target)
        return show_code(sent_profile(target, read_pstats(body), time.time(), output), rows, as_json)
    return show_code(profile_code(target, seconds, rate, output, idle), rows, as_json)


def slow_question(target: str, seconds: int, rate: int, slow: SlowArguments) -> SlowQuestion:
    """Checked. Raises `InvalidInput`."""
    question = SlowQuestion(target, seconds, rate, slow.of, slow.slowest, slow.min_ms)
    question.check()
    return question


def trace_client(slow: SlowArguments) -> TraceClient:
    """The trace process that these options name."""
    return client(slow.traces, slow.traces_token_file, slow.traces_ca)


def requests_by(traces: TraceClient) -> Requests:
    """Whom `profile_slow` asks."""
    return partial(_requests, traces)


def _requests(traces: TraceClient, of: str, from_ns: int, to_ns: int) -> tuple[list[RequestSpan], int]:
    page = traces.requests(of, from_ns, to_ns)
    found = [
        RequestSpan(
            row.trace_id, row.span_id, row.service, row.operation, row.start_ns, row.end_ns, row.thread, row.weight
        )
        for row in page.requests
    ]
    return found, page.more
