"""The part `creation` of `bench.nri`: what the hook adds to a container's creation and start, beside what any plugin,
the machine, and the weight itself add.
"""

from __future__ import annotations

import random
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeVar

from bench.containerd import Pod, Runtime
from bench.hook import OF_A_CPU, HookProcess, pod_of
from bench.idle_plugin import IdlePlugin

T = TypeVar("T")
ON, NOTHING, OFF, AGAIN, ASKED_LEAST = (
    "on",
    "a plugin that does nothing",
    "off",
    "off again",
    "off, the least asked for",
)
OF_BEST_EFFORT = {**OF_A_CPU, "cpu_shares": 2}  # as a kubelet asks for a pod without requests
_BLOCK = 10
_WITHIN_S = 0.005
_LATENCY = re.compile(
    r'^containerd_nri_plugin_latency_seconds_(count|bucket)\{([^}]*operation="CreateContainer"[^}]*)\} (\S+)$', re.M
)
_PLUGIN = re.compile(r'plugin="([^"]*)"')


class Plugin(Protocol):
    """A plugin as a process."""

    def start(self) -> None:
        """Until the runtime asks it."""
        ...

    def end(self) -> None:
        """Until it has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Creations:
    """A pod whose containers are created, started and ended."""

    runtime: Runtime
    pod: Pod

    def one(self, arm: str, number: int) -> tuple[float, float]:
        """Milliseconds until it is created, and until it is started."""
        began = time.perf_counter()
        asked = OF_BEST_EFFORT if arm == ASKED_LEAST else OF_A_CPU
        container = self.runtime.container(self.pod, asked, name=f"c-{arm.replace(' ', '-').replace(',', '')}-{number}")
        created = time.perf_counter()
        self.runtime.start(container)
        started = time.perf_counter()
        self.runtime.end_container(container)
        return 1000 * (created - began), 1000 * (started - began)


def creation(runtime: Runtime, hook: HookProcess, at: Path, containers: int, port: int) -> Iterator[dict[str, Any]]:
    """By turns, and then with three plugins at once. `at`: the runtime's socket for plugins; `port`: of its metrics."""
    made = Creations(runtime, pod_of(runtime, "c", 0))
    plugins: dict[str, Plugin] = {ON: hook, NOTHING: IdlePlugin(at, "nothing", "50")}
    arms = (ON, NOTHING, OFF, AGAIN, ASKED_LEAST)
    blocks = list(in_blocks(plugins, containers, arms, made.one))
    for step, what in enumerate(("created", "started")):
        times = [{arm: [pair[step] for pair in pairs] for arm, pairs in block.items()} for block in blocks]
        for arm in arms:
            yield {"part": "creation", "until": what, **times_of(arm, [ms for block in times for ms in block[arm]])}
        for arm, without in ((ON, OFF), (NOTHING, OFF), (AGAIN, OFF), (ON, NOTHING), (ON, ASKED_LEAST)):
            yield {"part": "creation", "until": what, **_added(times, arm, without)}
    yield from _together(made, hook, at, containers, port)
    runtime.remove(made.pod)


def _together(made: Creations, hook: HookProcess, at: Path, containers: int, port: int) -> Iterator[dict[str, Any]]:
    """The runtime asks one after another for the same creation, and says what it waited for each (containerd 2.4)."""
    before = _waited(port)
    if before is None:
        return
    together: list[Plugin] = [IdlePlugin(at, "before", "10"), hook, IdlePlugin(at, "after", "90")]
    for plugin in together:
        plugin.start()
    time.sleep(0.5)  # what it took to start is over
    for number in range(containers):
        made.one("together", number)
    after = _waited(port)
    for plugin in together:
        plugin.end()
    assert after is not None
    for name in sorted(after):
        now = after[name] - before.get(name, Counter())
        if now["calls"]:
            yield {"part": "together", "hook": name, "containers": now["calls"], "within_5_ms": now["within"]}


def in_blocks(
    plugins: Mapping[str, Plugin], count: int, arms: Sequence[str], one: Callable[[str, int], T]
) -> Iterator[dict[str, list[T]]]:
    """`count` of each arm in blocks of ten, which begin with another arm each time. `plugins`: of the arms that have
    one.
    """
    for number, first in enumerate(range(0, count, _BLOCK)):
        block = {}
        for arm in (*arms[number % len(arms) :], *arms[: number % len(arms)]):
            plugin = plugins.get(arm)
            if plugin is not None:
                plugin.start()
            time.sleep(0.5)  # what it took to start and to end is over
            block[arm] = [one(arm, number) for number in range(first, min(count, first + _BLOCK))]
            if plugin is not None:
                plugin.end()
        yield block


def times_of(which: str, taken: Sequence[float]) -> dict[str, Any]:
    """Median and p99 of milliseconds."""
    ordered = sorted(taken)
    return {
        "hook": which,
        "containers": len(taken),
        "median_ms": round(median(ordered), 2),
        "p99_ms": round(_p99(ordered), 2),
    }


def _added(blocks: Sequence[dict[str, list[float]]], arm: str, without: str) -> dict[str, Any]:
    """What one arm's median and p99 are above another's, and its interval by drawing blocks again."""

    def between(drawn: Sequence[dict[str, list[float]]]) -> tuple[float, float]:
        one, other = (sorted(ms for block in drawn for ms in block[which]) for which in (arm, without))
        return median(one) - median(other), _p99(one) - _p99(other)

    draws = random.Random(0)
    again = [between(draws.choices(blocks, k=len(blocks))) for _ in range(2000)]
    found: dict[str, Any] = {"hook": f"{arm} - {without}"}
    for at, figure in enumerate(("median", "p99")):
        ordered = sorted(pair[at] for pair in again)
        low, high = ordered[len(ordered) // 40], ordered[-1 - len(ordered) // 40]
        found[f"{figure}_ms"] = f"{between(blocks)[at]:.1f} ({low:.1f} to {high:.1f})"
    return found


def _waited(port: int) -> dict[str, Counter[str]] | None:
    """By plugin: its calls for a creation, and those that took 5 ms at most; None where the runtime does not say."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/metrics", timeout=5) as answer:
            page = answer.read().decode()
    except OSError:
        return None
    found: dict[str, Counter[str]] = {}
    for kind, labels, value in _LATENCY.findall(page):
        plugin = _PLUGIN.search(labels)
        counted = found.setdefault(plugin[1] if plugin else "", Counter())
        if kind == "count":
            counted["calls"] += int(float(value))
        elif f'le="{_WITHIN_S}"' in labels:
            counted["within"] += int(float(value))
    return found or None


def _p99(ordered: Sequence[float]) -> float:
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
