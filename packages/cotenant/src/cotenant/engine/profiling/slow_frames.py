"""Which frames hold the time of slow requests: stacks over time joined to the spans of requests.

A span that names its thread (`thread.id`) is that thread's time. Else its thread is looked for by time: one with a call
that began and ended with the request; where there is none, one whose stack changed at both moments, or at least when it
began. Several such threads share the request's time, and several requests share a thread's, in equal parts; how much of
the time needed no such sharing is told.
Limits: requests that begin and end at the same moments on several threads cannot be told apart without `thread.id`, nor
can those that take turns on one thread, as coroutines do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from cotenant.model.machine.stacks import Frame, Stack, StackRun, StackTimeline

Thread = tuple[int, int]  # process, and the program's number of the thread


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """A request by its span, in the time of its own host. `thread`: 0 = not said. `weight`: how many it stands for."""

    trace_id: str
    span_id: str
    service: str
    operation: str
    begin_ns: int
    end_ns: int
    thread: int = 0
    weight: float = 1.0

    @property
    def duration_ns(self) -> int:
        """How long it took."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True, slots=True)
class SlowFrame:
    """Shares of the slow requests' time in which a frame was innermost (`own`) and anywhere (`total`), and of the other
    requests' time (`own_of_others`).
    """

    frame: Frame
    own: float
    total: float
    own_of_others: float


@dataclass(frozen=True, slots=True)
class SlowFrames:
    """`requests`: within the timeline. `slow`: of them, and of these `unmatched` without a thread. `min_slow_ns`: the
    shortest of the slow ones. `certain`: share of their time that no other request or thread could claim. `stacks`: of
    all requests, in microseconds, with the spans that had them for certain.
    """

    requests: int
    slow: int
    unmatched: int
    outside: int
    min_slow_ns: int
    certain: float
    frames: tuple[SlowFrame, ...]
    stacks: tuple[Stack, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """`taken_ns` of a request's time, in one stack."""

    request: int
    stack: int
    taken_ns: float
    is_certain: bool


def slow_frames(
    timeline: StackTimeline, requests: Sequence[RequestSpan], tolerance_ns: int, slowest: float, min_ns: int = 0
) -> SlowFrames:
    """`slowest`: the share of requests, by weight, that are called slow; of them those of `min_ns` or more."""
    within = [
        request for request in requests if timeline.begin_ns <= request.begin_ns and request.end_ns <= timeline.end_ns
    ]
    within.sort(key=lambda request: (-request.duration_ns, request.begin_ns, request.span_id))
    slow = _slow(within, slowest, min_ns)
    own: tuple[dict[Frame, float], ...] = defaultdict(float), defaultdict(float)  # of slow ones, of others
    total: dict[Frame, float] = defaultdict(float)
    linked: dict[tuple[int, int], float] = defaultdict(float)  # stack, and request or -1
    sums, certain_ns, matched = [0.0, 0.0], 0.0, set()
    for piece in _pieces(timeline, within, tolerance_ns):
        is_slow = piece.request < slow
        weighted_ns = piece.taken_ns * within[piece.request].weight
        stack = [timeline.frames[place] for place in timeline.stacks[piece.stack]]
        own[not is_slow][stack[-1]] += weighted_ns
        sums[not is_slow] += weighted_ns
        linked[piece.stack, piece.request if piece.is_certain else -1] += piece.taken_ns
        if is_slow:
            matched.add(piece.request)
            certain_ns += weighted_ns * piece.is_certain
            for frame in set(stack):
                total[frame] += weighted_ns
    of_slow, of_others = (max(ns, 1.0) for ns in sums)
    found = [
        SlowFrame(frame, own[0][frame] / of_slow, ns / of_slow, own[1][frame] / of_others)
        for frame, ns in total.items()
    ]
    found.sort(key=lambda hot: (-hot.own, -hot.total, hot.frame.file, hot.frame.line, hot.frame.function))
    return SlowFrames(
        requests=len(within),
        slow=slow,
        unmatched=slow - len(matched),
        outside=len(requests) - len(within),
        min_slow_ns=within[slow - 1].duration_ns if slow else 0,
        certain=certain_ns / of_slow,
        frames=tuple(found),
        stacks=tuple(_stack(timeline, stack, within, request, ns) for (stack, request), ns in linked.items()),
    )


def _slow(ordered: Sequence[RequestSpan], slowest: float, min_ns: int) -> int:
    """How many of the requests, the longest first, are slow: at least one."""
    weights = list(accumulate(request.weight for request in ordered))
    if not weights:
        return 0
    by_share = max(1, bisect_left(weights, weights[-1] * slowest * (1 - 1e-9)) + 1)
    return sum(request.duration_ns >= min_ns for request in ordered[: min(by_share, len(ordered))])


def _pieces(timeline: StackTimeline, requests: Sequence[RequestSpan], tolerance_ns: int) -> Iterator[_Piece]:
    runs: dict[Thread, list[StackRun]] = defaultdict(list)
    for run in timeline.runs:
        runs[run.pid, run.thread].append(run)
    moments = {thread: _moments(of_thread, timeline, tolerance_ns) for thread, of_thread in runs.items()}
    claims: dict[Thread, list[tuple[int, float]]] = defaultdict(list)
    for number, request in enumerate(requests):
        threads = _threads_of(request, moments, tolerance_ns)
        for thread in threads:
            claims[thread].append((number, 1.0 / len(threads)))
    for thread, of_thread in claims.items():
        yield from _shared(runs[thread], of_thread, requests)


@dataclass(frozen=True, slots=True)
class _Moments:
    """When a thread's stack changed, and when each of its calls began and ended, by their begin."""

    changes: list[int]
    calls: list[tuple[int, int]]

    def changed(self, at_ns: int, tolerance_ns: int) -> bool:
        place = bisect_left(self.changes, at_ns - tolerance_ns)
        return place < len(self.changes) and self.changes[place] <= at_ns + tolerance_ns

    def called(self, request: RequestSpan, tolerance_ns: int) -> bool:
        first = bisect_left(self.calls, (request.begin_ns - tolerance_ns, 0))
        last = bisect_left(self.calls, (request.begin_ns + tolerance_ns + 1, 0))
        return any(abs(end_ns - request.end_ns) <= tolerance_ns for _, end_ns in self.calls[first:last])


def _moments(runs: Sequence[StackRun], timeline: StackTimeline, tolerance_ns: int) -> _Moments:
    begun_ns = timeline.begin_ns + 2 * tolerance_ns
    changes = [run.begin_ns for k, run in enumerate(runs) if k or run.begin_ns > begun_ns]  # the first: it was started
    calls: set[tuple[int, int]] = set()
    inside: list[tuple[tuple[str, str], int]] = []  # functions, the outermost first, and since when
    for run in runs:
        frames = (timeline.frames[place] for place in timeline.stacks[run.stack])
        functions = [(frame.function, frame.file) for frame in frames]
        same = 0
        while same < min(len(inside), len(functions)) and inside[same][0] == functions[same]:
            same += 1
        calls.update((since_ns, run.begin_ns) for _, since_ns in inside[same:])
        inside[same:] = [(function, run.begin_ns) for function in functions[same:]]
    return _Moments(changes, sorted(calls))


def _threads_of(request: RequestSpan, moments: Mapping[Thread, _Moments], tolerance_ns: int) -> list[Thread]:
    if request.thread:
        return [thread for thread in moments if thread[1] == request.thread]
    if called := [thread for thread, of in moments.items() if of.called(request, tolerance_ns)]:
        return called
    began = [thread for thread, of in moments.items() if of.changed(request.begin_ns, tolerance_ns)]
    return [thread for thread in began if moments[thread].changed(request.end_ns, tolerance_ns)] or began


def _shared(
    runs: Sequence[StackRun], claims: Sequence[tuple[int, float]], requests: Sequence[RequestSpan]
) -> Iterator[_Piece]:
    """A thread's time, cut where a run or a request begins or ends, among the requests that claim it."""
    begins = {number: (requests[number].begin_ns, part) for number, part in claims}
    bounds = sorted(
        {ns for number in begins for ns in (requests[number].begin_ns, requests[number].end_ns)}
        | {ns for run in runs for ns in (run.begin_ns, run.end_ns)}
    )
    begun = sorted(begins, key=lambda number: requests[number].begin_ns)
    active: dict[int, float] = {}
    next_begun = next_run = 0
    for begin_ns, end_ns in pairwise(bounds):
        while next_begun < len(begun) and requests[begun[next_begun]].begin_ns <= begin_ns:
            active[begun[next_begun]] = begins[begun[next_begun]][1]
            next_begun += 1
        active = {number: part for number, part in active.items() if requests[number].end_ns > begin_ns}
        while next_run < len(runs) and runs[next_run].end_ns <= begin_ns:
            next_run += 1
        if not active or next_run == len(runs) or runs[next_run].begin_ns > begin_ns:
            continue
        crowd = max(1.0, sum(active.values()))
        for number, part in active.items():
            is_certain = part == 1.0 and len(active) == 1
            yield _Piece(number, runs[next_run].stack, (end_ns - begin_ns) * part / crowd, is_certain)


def _stack(timeline: StackTimeline, stack: int, requests: Sequence[RequestSpan], request: int, ns: float) -> Stack:
    frames = tuple(timeline.frames[place] for place in timeline.stacks[stack])
    if request < 0:
        return Stack(frames, round(ns / 1000))
    return Stack(frames, round(ns / 1000), requests[request].trace_id, requests[request].span_id)
