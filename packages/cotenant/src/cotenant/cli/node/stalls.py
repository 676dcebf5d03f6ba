"""`cotenant node stalls`: load averages, waits and long waits of groups, read by a probe of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict
from time import sleep

from cotenant.cli import tables
from cotenant.drivers.cgroup.layout import detect
from cotenant.drivers.cgroup.task_states import TaskStates
from cotenant.drivers.ebpf.stalls import StallTracer
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.run_queue import NoCulprit, WaitHistogram
from cotenant.model.machine.stalls import GroupStalls, LongWait, StallKind
from cotenant.services.nodeview.stalls import StallView, StallWatch


def stalls(group: str, every_s: float, count: int | None, long_ms: float, rows: int, as_json: bool) -> int:
    """Print the groups every so often, then the long waits. Raises `InvalidInput`, `Unsupported`."""
    if not 0.1 <= every_s <= 3600:
        raise InvalidInput("--every", every_s, "0.1 to 3600 seconds")
    if count is not None and count < 1:
        raise InvalidInput("--count", count, "1 or more")
    if not 0 < long_ms <= 60_000:
        raise InvalidInput("--long-ms", long_ms, "more than 0, at most 60000 milliseconds")
    if not 1 <= rows <= 10_000:
        raise InvalidInput("--groups", rows, "1 to 10000")
    layout = detect()
    tree = layout.by_controller["cpu"]
    with (
        closing(TaskStates(layout)) as states,
        StallTracer(tree.path, tree.version, long_us=round(long_ms * 1000)) as probe,
    ):
        watch = StallWatch(probe, system_us=states.system_us)
        watch.view()
        done, waits = 0, list[LongWait]()
        with suppress(KeyboardInterrupt):
            while count is None or done < count:
                sleep(every_s)
                view = watch.view()
                done += 1
                waits = [wait for wait in watch.ring() if _below(wait.group, group)]
                found = [entry for entry in view.groups if _below(entry.group, group)]
                if as_json:
                    print(json.dumps(_plain(view, found, waits, watch.system_us)), flush=True)
                else:
                    _print(view, found, rows, watch.system_us)
        if not as_json:
            _print_waits(waits)
    return 0


def _below(group: str, wanted: str) -> bool:
    return not wanted or group == wanted or group.startswith(f"{wanted}/")


def _plain(
    view: StallView, groups: list[GroupStalls], waits: list[LongWait], system_us: Callable[[str], int | None]
) -> dict[str, object]:
    return {
        "groups": [
            {
                "group": group.group,
                "runnable": group.runnable,
                "uninterruptible": group.uninterruptible,
                "load": asdict(view.loads[group.group]) if group.group in view.loads else None,
                "blocked": _histogram(group.blocked),
                "reclaim": _histogram(group.reclaim),
                "systemUs": system_us(group.group),
                "lost": group.lost,
            }
            for group in groups
        ],
        "conditions": [
            {
                "type": problem.type,
                "status": str(problem.is_true),
                "reason": problem.reason,
                "message": problem.message,
            }
            for problem in view.problems
        ],
        "longWaits": [_plain_wait(wait) for wait in waits],
        "lost": view.lost,
        "uncounted": view.uncounted,
    }


def _plain_wait(wait: LongWait) -> dict[str, object]:
    ran = [
        {**asdict(one), "group": one.group.value if isinstance(one.group, NoCulprit) else one.group} for one in wait.ran
    ]
    return {**asdict(wait), "kind": wait.kind.name.lower(), "ran": ran}


def _histogram(waits: WaitHistogram) -> dict[str, object]:
    return {"count": waits.count, "sum_us": waits.sum_us, "buckets": list(waits.buckets)}


def _print(view: StallView, groups: list[GroupStalls], most: int, system_us: Callable[[str], int | None]) -> None:
    def weight(group: GroupStalls) -> int:
        return group.blocked.sum_us + group.reclaim.sum_us

    rows = [
        [
            group.group or "/",
            _loads(view.loads[group.group].runnable) if group.group in view.loads else "-",
            _loads(view.loads[group.group].uninterruptible) if group.group in view.loads else "-",
            *_waits(group.blocked),
            *_waits(group.reclaim),
            _seconds(system_us(group.group)),
        ]
        for group in sorted(groups, key=weight, reverse=True)[:most]
    ]
    headings = ["group", "R 1 5 15", "D 1 5 15", "blocked", "p99 ms", "reclaims", "p99 ms of reclaim", "system s"]
    tables.print_words(headings, rows, right=headings[1:])
    for problem in view.problems:
        if problem.is_true:
            tables.print_line(f"{problem.type}: {problem.message}", strong=True)


def _seconds(value_us: int | None) -> str:
    return "-" if value_us is None else f"{value_us / 1e6:.1f}"


def _loads(loads: tuple[float, float, float]) -> str:
    return " ".join(f"{load:.2f}" for load in loads)


def _waits(waits: WaitHistogram) -> tuple[str, str]:
    late = waits.percentile_us(99)
    return str(waits.count), "-" if late is None else f"{late / 1000:.1f}"


def _print_waits(waits: list[LongWait]) -> None:
    for wait in waits[-20:]:
        tables.print_line(
            f"{wait.kind.name.lower()} {wait.wait_us / 1000:.1f} ms: {wait.command} ({wait.pid}) of "
            f"{wait.group or '/'}, ended by {wait.waker} ({wait.waker_pid}) of {wait.waker_group or '/'}"
            + (", held by its own quota" if wait.withheld else "")
        )
        if wait.ran:
            tables.print_line(f"    meanwhile ran {'; '.join(_ran(wait))}")
        if wait.stack:
            where = f"{wait.stack_pid} left the CPU in " if wait.kind is StallKind.RUNNABLE else ""
            tables.print_line(f"    {where}{' < '.join(wait.stack[:8])}")


def _ran(wait: LongWait) -> list[str]:
    """Who ran during a wait for a CPU, longest first."""
    told = []
    for one in wait.ran:
        share = f"{one.ran_us / 1000:.1f} ms"
        if isinstance(one.group, NoCulprit):
            told.append(f"nobody {share}")
        else:
            told.append(f"{one.group or '/'} {share} (longest at once {one.command}, {one.pid})")
    if wait.others_us:
        told.append(f"others {wait.others_us / 1000:.1f} ms")
    return told
