"""Slow requests of a real program joined with its stacks by a real py-spy and a real trace process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.fakes.servers.trace_process import Clock, Running
from tests.fakes.waiting import eventually

from cotenant.cli.ask.profile_code_running import requests_by
from cotenant.cli.ask.profile_code_showing import show_slow
from cotenant.drivers.stacks.programs import python_processes
from cotenant.drivers.stacks.py_spy import py_spy_path, record_timeline
from cotenant.engine.profiling.slow_frames import RequestSpan
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.machine.stacks import Frame, StackRun, StackTimeline
from cotenant.services.profiling.output import NO_OUTPUT, Output
from cotenant.services.profiling.slow import SlowQuestion, profile_slow
from cotenant.services.traces.client import TraceClient
from cotenant.services.traces.traces_arguments import TraceSettings

# Two workers of a pool; of ten requests one is slow, by a lock that it waits for, the others compute.
PROGRAM = """
import json, os, sys, threading, time, urllib.request
from concurrent.futures import ThreadPoolExecutor
URL, GUID = sys.argv[1:]
def compute():
    until = time.monotonic() + 0.03
    while time.monotonic() < until: sum(range(100))
def wait_for_a_lock():
    time.sleep(0.4)
def handle(number):
    begin = time.time_ns()
    wait_for_a_lock() if number % 10 == 0 else compute()
    return {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "GET", "kind": 2,
            "startTimeUnixNano": str(begin), "endTimeUnixNano": str(time.time_ns()),
            "attributes": [{"key": "thread.id", "value": {"intValue": str(threading.get_ident())}}]}
def worker(first):
    number, spans = first, []
    while True:
        spans.append(handle(number)); number += 2
        time.sleep(0.02)
        if len(spans) == 10:
            body = {"resourceSpans": [{"resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": "web"}},
                {"key": "service.instance.id", "value": {"stringValue": GUID}}]}, "scopeSpans": [{"spans": spans}]}]}
            request = urllib.request.Request(URL + "/v1/traces", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            urllib.request.urlopen(request).read(); spans = []
threads = [threading.Thread(target=worker, args=(first,), daemon=True) for first in (1000, 1001)]
for thread in threads: thread.start()
print(flush=True)
threads[0].join()
"""


@pytest.mark.slow
def test_the_frame_that_slow_requests_wait_in_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        py_spy_path()
    except Unsupported as error:
        pytest.skip(str(error))
    (tmp_path / "web.py").write_text(PROGRAM)
    guid, clock = f"web-{os.getpid()}", Clock(time.time())
    with Running(TraceSettings(http="127.0.0.1:0", grpc=""), clock) as traces:
        command = [sys.executable, str(tmp_path / "web.py"), traces.url.rstrip("/"), guid]
        web = subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | {"COTENANT_GUID": guid})
        assert web.stdout is not None
        web.stdout.readline()

        def finished(_: float) -> None:
            web.kill()
            clock.now_s = time.time() + 30  # what was quiet for long is finished
            eventually(
                "all are finished", lambda: b"cotenant_traces_open_spans 0.0\n" in traces.ask("GET", "/metrics")[1]
            )

        try:
            question = SlowQuestion(guid, seconds=4, rate_hz=100, slowest=0.05)
            out = Output(tmp_path / "slow.pb.gz")
            ask = requests_by(TraceClient(traces.url))
            found = profile_slow(question, ask, out, python_processes, record_timeline, finished)
        except Permanent as error:
            pytest.skip(f"py-spy may not read processes here: {error}")
        finally:
            web.kill()
            web.wait()
    slow = found.found
    assert slow.requests > slow.slow > 0
    waiting = next(hot for hot in slow.frames if hot.frame.function == "wait_for_a_lock")
    assert waiting.own > 0.5 > waiting.own_of_others
    assert any(stack.span_id for stack in slow.stacks)
    assert (tmp_path / "slow.pb.gz").read_bytes()[:2] == b"\x1f\x8b"
    show_slow(found, 20, as_json=False)
    assert "wait_for_a_lock" in capsys.readouterr().out
    show_slow(found, 20, as_json=True)
    assert json.loads(capsys.readouterr().out)["found"]["slow"] == slow.slow


LINE = StackTimeline((Frame("f", "a.py", 1),), ((0,),), (StackRun(7, 1, 10**9, 2 * 10**9, 0),), 0, 4 * 10**9)


def test_what_cannot_be_joined_is_said() -> None:
    def ask(of: str, from_ns: int, to_ns: int) -> tuple[list[RequestSpan], int]:
        return [RequestSpan("1", "2", "web", "GET", 3 * 10**9, 5 * 10**9)], 0

    with pytest.raises(Permanent, match="no kept trace has a request of web-1 within these 10 s, 1 reach beyond it"):
        profile_slow(SlowQuestion("web-1"), ask, NO_OUTPUT, lambda _: [7], lambda *_: LINE, lambda _: None)
    for question, said in (
        (SlowQuestion("7"), "--of"),
        (SlowQuestion("web", slowest=0.0), "--slowest"),
        (SlowQuestion("web", min_ms=-1.0), "--min-ms"),
    ):
        with pytest.raises(InvalidInput, match=said):
            profile_slow(question, ask)
    with pytest.raises(InvalidInput, match="--otlp"):
        profile_slow(SlowQuestion("web-1"), ask, Output(otlp="collector:4318"))


def test_the_wait_in_the_middle_is_for_the_traces_to_finish() -> None:
    waited: list[float] = []

    def ask(of: str, from_ns: int, to_ns: int) -> tuple[list[RequestSpan], int]:
        return [RequestSpan("1", "2", "web", "GET", 10**9, 2 * 10**9)] if waited else [], 3

    found = profile_slow(SlowQuestion("web-1"), ask, NO_OUTPUT, lambda _: [7], lambda *_: LINE, waited.append)
    assert (found.found.slow, found.more, found.pids, len(waited)) == (1, 3, (7,), 1)
    assert found.found.frames[0].own == 1.0
