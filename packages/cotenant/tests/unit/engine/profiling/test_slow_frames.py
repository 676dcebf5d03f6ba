"""Stacks over time joined with spans: whose time it is, what is shared, and the same by counting milliseconds."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

import pytest

from cotenant.engine.profiling.slow_frames import RequestSpan, slow_frames
from cotenant.engine.profiling.timelines import cut_to_runs, merged_timeline
from cotenant.model.machine.stacks import Frame, Stack, StackRun, StackTimeline

MS = 1_000_000
IDLE, HANDLE, QUERY, RENDER = (Frame(name, "app.py", k) for k, name in enumerate(("idle", "handle", "query", "render")))
FRAMES = (IDLE, HANDLE, QUERY, RENDER)
STACKS = ((0,), (1, 2), (1, 3))  # waits; handle > query; handle > render
TOLERANCE = 2 * MS


def timeline(*threads: list[tuple[int, int]], length_ms: int = 1000) -> StackTimeline:
    """Of each thread, when (ms) which stack begins."""
    runs = []
    for thread, steps in enumerate(threads, 1):
        ends = [at for at, _ in steps[1:]] + [length_ms]
        runs += [StackRun(7, thread, at * MS, end * MS, stack) for (at, stack), end in zip(steps, ends, strict=True)]
    return StackTimeline(FRAMES, STACKS, tuple(runs), 0, length_ms * MS)


def span(number: int, begin_ms: int, end_ms: int, thread: int = 0, weight: float = 1.0) -> RequestSpan:
    return RequestSpan(f"{number:032x}", f"{number:016x}", "web", "GET", begin_ms * MS, end_ms * MS, thread, weight)


def test_a_slow_request_is_in_its_query_and_the_others_are_not() -> None:
    line = timeline([(0, 0), (100, 1), (190, 2), (200, 0), (300, 1), (305, 2), (315, 0)], [(0, 0)])
    found = slow_frames(line, [span(1, 101, 201), span(2, 300, 314)], TOLERANCE, slowest=0.5)
    assert (found.requests, found.slow, found.unmatched, found.min_slow_ns, found.certain) == (2, 1, 0, 100 * MS, 1.0)
    by_frame = {hot.frame: hot for hot in found.frames}
    assert (by_frame[QUERY].own, by_frame[RENDER].own) == pytest.approx((0.89, 0.10))
    assert by_frame[HANDLE].total == pytest.approx(0.99)
    assert by_frame[QUERY].own_of_others == pytest.approx(5 / 14)
    assert Stack((HANDLE, QUERY), 89_000, f"{1:032x}", f"{1:016x}") in found.stacks
    assert found.frames[0].frame == QUERY


def test_two_threads_that_change_at_the_same_moments_share_a_request_unless_it_names_one() -> None:
    busy = [(0, 0), (100, 1), (200, 0)]
    line = timeline(busy, [(0, 0), (100, 2), (200, 0)])
    shared = slow_frames(line, [span(1, 100, 200)], TOLERANCE, slowest=1.0)
    assert shared.certain == 0.0
    assert {hot.frame: hot.own for hot in shared.frames} == pytest.approx({QUERY: 0.5, RENDER: 0.5, HANDLE: 0.0})
    assert all(not stack.span_id for stack in shared.stacks)
    named = slow_frames(line, [span(1, 100, 200, thread=2)], TOLERANCE, slowest=1.0)
    assert (named.certain, named.frames[0].frame, named.frames[0].own) == (1.0, RENDER, 1.0)


def test_a_thread_that_works_in_pieces_meanwhile_takes_nothing_of_one_long_call() -> None:
    pieces = [(at, 2 * (k % 2)) for k, at in enumerate(range(0, 300, 10))]
    line = timeline([(0, 0), (100, 1), (140, 2), (200, 0)], pieces)
    found = slow_frames(line, [span(1, 100, 200)], TOLERANCE, slowest=1.0)
    assert (found.certain, found.frames[0].own) == pytest.approx((1.0, 0.6))


def test_requests_that_take_turns_on_a_thread_share_its_time() -> None:
    line = timeline([(0, 0), (100, 1), (150, 2), (200, 1), (250, 0)])
    found = slow_frames(line, [span(1, 100, 200), span(2, 150, 250)], TOLERANCE, slowest=1.0)
    assert found.certain == pytest.approx(100 / 150)
    assert {hot.frame: hot.own for hot in found.frames if hot.own} == pytest.approx({QUERY: 2 / 3, RENDER: 1 / 3})


def test_a_thread_that_ended_with_its_request_is_found_by_its_begin() -> None:
    line = timeline([(0, 0)], [(100, 1)])  # the second keeps its last stack
    found = slow_frames(line, [span(1, 100, 150)], TOLERANCE, slowest=1.0)
    assert (found.unmatched, found.certain, found.frames[0].own) == (0, 1.0, 1.0)


def test_what_fits_no_thread_or_reaches_beyond_is_counted() -> None:
    line = timeline([(0, 0), (500, 1), (600, 0)])
    found = slow_frames(line, [span(1, 100, 150), span(2, 900, 1100), span(3, 500, 600, 9)], TOLERANCE, slowest=1.0)
    assert (found.requests, found.slow, found.unmatched, found.outside, found.frames) == (2, 2, 2, 1, ())
    assert slow_frames(line, [], TOLERANCE, slowest=1.0).requests == 0
    assert slow_frames(line, [span(1, 500, 600)], TOLERANCE, 1.0, min_ns=101 * MS).slow == 0


def test_a_kept_trace_counts_for_those_it_stands_for() -> None:
    line = timeline([(0, 0), (100, 1), (150, 0), (200, 2), (250, 0)])
    found = slow_frames(line, [span(1, 100, 150, weight=3.0), span(2, 200, 250)], TOLERANCE, slowest=1.0)
    assert {hot.frame: hot.own for hot in found.frames if hot.own} == pytest.approx({QUERY: 0.75, RENDER: 0.25})


@pytest.mark.parametrize("seed", range(20))
def test_the_same_by_counting_milliseconds(seed: int) -> None:
    chance = random.Random(seed)
    threads = []
    for _ in range(3):
        at = sorted(chance.sample(range(1, 300), 12))
        threads.append([(0, 0)] + [(ms, chance.randrange(3)) for ms in at])
    requests = [
        span(k, begin := chance.randrange(280), begin + chance.randrange(1, 20), thread=chance.randrange(1, 4))
        for k in range(1, 12)
    ]
    line = timeline(*threads, length_ms=300)
    found = slow_frames(line, requests, TOLERANCE, slowest=1.0)
    expected: dict[Frame, float] = defaultdict(float)
    for ms in range(300):
        for thread, steps in enumerate(threads, 1):
            active = [
                r for r in requests if r.thread == thread and r.begin_ns <= ms * MS < r.end_ns and r.end_ns <= 300 * MS
            ]
            stack = [number for at, number in steps if at <= ms][-1]
            for _ in active:
                expected[FRAMES[STACKS[stack][-1]]] += 1 / len(active)
    total = sum(expected.values())
    got = {hot.frame: hot.own for hot in found.frames if hot.own > 0}
    assert got == pytest.approx({frame: ms / total for frame, ms in expected.items()})


def test_timelines_of_processes_are_joined_and_cut() -> None:
    one = timeline([(0, 0), (100, 1), (200, 0)])
    other = StackTimeline((RENDER, IDLE), ((1,), (0,)), (StackRun(8, 1, 50 * MS, 900 * MS, 1),), 50 * MS, 900 * MS)
    both = merged_timeline([one, other])
    assert (both.begin_ns, both.end_ns, len(both.runs)) == (50 * MS, 900 * MS, 4)
    (of_other,) = [run for run in both.runs if run.pid == 8]
    assert [both.frames[place] for place in both.stacks[of_other.stack]] == [RENDER]
    short = cut_to_runs(one, 2)
    assert short.end_ns == 200 * MS
    assert [(run.begin_ns, run.end_ns) for run in short.runs] == [(0, 100 * MS), (100 * MS, 200 * MS)]
    assert [[short.frames[k] for k in short.stacks[run.stack]] for run in short.runs] == [[IDLE], [HANDLE, QUERY]]
    assert cut_to_runs(one, 3) is one
    assert replace(short, runs=()).frames == (IDLE, HANDLE, QUERY)
