"""Timelines of several processes as one, and one that has room in a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cotenant.model.machine.stacks import Frame, StackRun, StackTimeline


def merged_timeline(timelines: Sequence[StackTimeline]) -> StackTimeline:
    """Those of several processes as one, as long as all were sampled."""
    frames: dict[Frame, int] = {}
    stacks: dict[tuple[int, ...], int] = {}
    runs = []
    for timeline in timelines:
        places = [frames.setdefault(frame, len(frames)) for frame in timeline.frames]
        numbers = [stacks.setdefault(tuple(places[place] for place in stack), len(stacks)) for stack in timeline.stacks]
        runs += [StackRun(run.pid, run.thread, run.begin_ns, run.end_ns, numbers[run.stack]) for run in timeline.runs]
    begin_ns = max(timeline.begin_ns for timeline in timelines)
    return StackTimeline(
        tuple(frames), tuple(stacks), tuple(runs), begin_ns, min(timeline.end_ns for timeline in timelines)
    )


def cut_to_runs(timeline: StackTimeline, max_runs: int) -> StackTimeline:
    """Its beginning, with so many runs, and only what they need."""
    runs = sorted(timeline.runs, key=lambda run: run.begin_ns)
    if len(runs) <= max_runs:
        return timeline
    end_ns = runs[max_runs].begin_ns
    kept = [replace(run, end_ns=min(run.end_ns, end_ns)) for run in runs[:max_runs]]
    return _without_unused(replace(timeline, runs=tuple(kept), end_ns=end_ns))


def _without_unused(timeline: StackTimeline) -> StackTimeline:
    stacks: dict[int, int] = {}
    frames: dict[int, int] = {}
    runs = [replace(run, stack=stacks.setdefault(run.stack, len(stacks))) for run in timeline.runs]
    numbered = [tuple(frames.setdefault(place, len(frames)) for place in timeline.stacks[stack]) for stack in stacks]
    return replace(
        timeline, frames=tuple(timeline.frames[place] for place in frames), stacks=tuple(numbered), runs=tuple(runs)
    )
