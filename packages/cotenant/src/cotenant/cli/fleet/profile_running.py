"""`cotenant fleet profile`: sampled on the container's host, joined and shown here."""

from __future__ import annotations

import sys
import time

from cotenant.cli.ask.profile_code_running import requests_by, slow_question, trace_client
from cotenant.cli.ask.profile_code_showing import show_code, show_slow
from cotenant.model.counted import counted
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.fleet.profiles import Profile, Profiled
from cotenant.services.fleet.operator import ask_controller
from cotenant.services.fleet.places import BusOptions
from cotenant.services.profiling.code import merged
from cotenant.services.profiling.output import Output
from cotenant.services.profiling.profiling_arguments import SlowArguments
from cotenant.services.profiling.slow import FINISHED_S, joined

_ANSWER_S = 45.0  # beside the sampling


def profile(
    bus: BusOptions,
    guid: str,
    seconds: int,
    rate: int,
    output: Output,
    idle: bool,
    slow: SlowArguments,
    rows: int,
    as_json: bool,
) -> int:
    """Ask and print."""
    output.check()
    request = Profile(guid, seconds, rate, idle, over_time=slow.slow)
    if not slow.slow:
        found = ask_controller(bus, "profile", request, Profiled, seconds + _ANSWER_S)
        if found.left_out:
            print(f"cotenant: {counted(found.left_out, 'sample')} of rare stacks left out", file=sys.stderr)
        profiled = merged(guid, found.pids, found.stacks, found.at_s, seconds, rate, output, found.notes)
        return show_code(profiled, rows, as_json)
    if idle:
        raise InvalidInput("--slow", "with --idle", "by itself: it counts threads that wait")
    question = slow_question(guid, seconds, rate, slow)
    ask = requests_by(trace_client(slow))
    ask(question.of or guid, 0, 0)  # nobody waits in vain for a process that does not answer
    found = ask_controller(bus, "profile", request, Profiled, seconds + _ANSWER_S)
    if found.timeline is None:
        raise Permanent("the agent sampled without times: it is older than this command")
    if (sampled_s := (found.timeline.end_ns - found.timeline.begin_ns) / 1e9) < seconds * 0.8:
        print(f"cotenant: only the first {sampled_s:.1f} s have room in the agent's answer", file=sys.stderr)
    time.sleep(FINISHED_S)
    return show_slow(joined(question, found.pids, found.timeline, ask, output), rows, as_json)
