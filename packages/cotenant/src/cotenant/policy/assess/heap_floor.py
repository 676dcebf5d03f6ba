"""What a program in a container was told about memory: below it no size may go.

A runtime that was given a heap of 2 GiB fills it some day, whatever the last week shows; one that was given a share of
its limit (a JVM's MaxRAMPercentage, 25 % by default) has a smaller heap when the limit is. So a fixed heap is a floor
for request and limit, with room for what is beside the heap, and a share keeps the limit as it is. Where a setting is
there and its value is not (a reference, a whole ConfigMap, a copy without arguments), memory is not lowered at all.
Limits: settings in files (jvm.options, a wrapper script's own defaults) are not seen; CPython has no setting of its
own, so only those of worker pools (Celery, uWSGI) count for it.
Sources: java(1), package runtime of Go, node(1), Celery's and uWSGI's options.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cotenant.model.sizes.container import ContainerProgram

MIB = 1 << 20
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_GO_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "": 1}
_REFERENCE = re.compile(r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_HEAP = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)(\d{1,18})([kKmMgGtT]?)(?![\w])")
_BESIDE = re.compile(r"-XX:Max(?:DirectMemory|Metaspace)Size=(\d{1,18})([kKmMgGtT]?)(?![\w])")
_SHARE = re.compile(r"-XX:MaxRAMPercentage=(\d{1,3}(?:\.\d+)?)")
_RAM = re.compile(r"-XX:MaxRAM=(\d{1,18})([kKmMgGtT]?)(?![\w])")
_NODE_JS = re.compile(r"--max[-_]old[-_]space[-_]size[= ](\d{1,9})")
_GO = re.compile(r"(\d{1,18})(B|KiB|MiB|GiB|TiB|)")
_CELERY = re.compile(r"--max-memory-per-child[= ](\d{1,12})")
_CELERY_WORKERS = re.compile(r"(?:--concurrency[= ]|-c[ =]?)(\d{1,5})(?!\S)")
_UWSGI = re.compile(r"--(?:reload-on-rss|evil-reload-on-rss)[= ](\d{1,9})")
_UWSGI_WORKERS = re.compile(r"(?:--(?:processes|workers)[= ]|-p[ =]?)(\d{1,5})(?!\S)")
_OPTIONS = re.compile(r".*(JAVA|JVM|JDK|CATALINA|JETTY).*|.*_OPTS|NODE_OPTIONS|GOMEMLIMIT")
_IS_JAVA = re.compile(r"(?:^|/)java$")
_USUAL_SHARE = 25.0
JVM_BESIDE_PCT, GO_BESIDE_PCT, NODE_JS_BESIDE_PCT = 25, 10, 25  # of the heap: threads, code, buffers
_LEAST_BESIDE = 64 * MIB


@dataclass(frozen=True, slots=True)
class HeapFloor:
    """`bytes` is for request and limit, 0 = none; `keeps_limit`: the heap is a share of it; `keeps_all`: memory may not
    be lowered at all. `why` is a sentence, "" where nothing was told.
    """

    bytes: int = 0
    keeps_limit: bool = False
    keeps_all: bool = False
    why: str = ""


NOTHING_TOLD = HeapFloor()


def heap_floor(program: ContainerProgram) -> HeapFloor:
    """What the program was told."""
    if not program.is_known:
        return HeapFloor(
            keeps_all=True, why="memory is not lowered: the copy has no arguments and environment, which may set a heap"
        )
    values = {name: value for name, value in program.env if value is not None}
    words = [_REFERENCE.sub(lambda found: values.get(found[1], found[0]), word) for word in program.words]
    for name, value in program.env:
        if value is None and _OPTIONS.fullmatch(name):
            return HeapFloor(keeps_all=True, why=f"memory is not lowered: the value of {name} is taken from elsewhere")
    told = " ".join([*(value for name, value in values.items() if _OPTIONS.fullmatch(name)), *words])
    found = _jvm(told, words) or _go(values) or _node_js(told) or _python(told)
    if found is not None:
        return found
    if program.has_more_env:
        return HeapFloor(
            keeps_all=True, why="memory is not lowered: the environment has a whole ConfigMap or Secret, not read here"
        )
    return NOTHING_TOLD


def _jvm(told: str, words: list[str]) -> HeapFloor | None:
    heaps = _HEAP.findall(told)
    if heaps:
        heap = _bytes(*heaps[-1])  # the last one counts
        beside = sum(_bytes(*found) for found in _BESIDE.findall(told))
        floor = heap + max(beside, heap * JVM_BESIDE_PCT // 100, _LEAST_BESIDE)
        return HeapFloor(floor, why=f"the JVM was told a heap of {_said(heap)}, so {_said(floor)} at least")
    shares = _SHARE.findall(told)
    ram = _RAM.findall(told)
    if not (shares or ram or any(_IS_JAVA.search(word) for word in words)):
        return None
    share = float(shares[-1]) if shares else _USUAL_SHARE
    if ram:
        heap = int(_bytes(*ram[-1]) * min(share, 100.0) / 100)
        floor = heap + max(heap * JVM_BESIDE_PCT // 100, _LEAST_BESIDE)
        return HeapFloor(floor, why=f"the JVM was told {_said(heap)} by MaxRAM, so {_said(floor)} at least")
    said = f"MaxRAMPercentage={shares[-1]}" if shares else "a JVM without a heap setting takes 25 %"
    return HeapFloor(keeps_limit=True, why=f"the heap is a share of the limit ({said}), so the limit is not lowered")


def _go(env: dict[str, str]) -> HeapFloor | None:
    found = _GO.fullmatch(env.get("GOMEMLIMIT", ""))
    if found is None:
        return None
    told = int(found[1]) * _GO_UNITS[found[2]]
    floor = told + max(told * GO_BESIDE_PCT // 100, 16 * MIB)
    return HeapFloor(floor, why=f"GOMEMLIMIT is {_said(told)}, so {_said(floor)} at least")


def _node_js(told: str) -> HeapFloor | None:
    found = _NODE_JS.findall(told)
    if not found:
        return None
    heap = int(found[-1]) * MIB
    floor = heap + max(heap * NODE_JS_BESIDE_PCT // 100, _LEAST_BESIDE)
    return HeapFloor(floor, why=f"node was told a heap of {_said(heap)}, so {_said(floor)} at least")


def _python(told: str) -> HeapFloor | None:
    """Worker pools end a worker above an amount: each may reach it."""
    for of_worker, of_pool, unit, name in (
        (_CELERY, _CELERY_WORKERS, 1 << 10, "Celery"),
        (_UWSGI, _UWSGI_WORKERS, MIB, "uWSGI"),
    ):
        found = of_worker.findall(told)
        if found:
            per_worker = int(found[-1]) * unit
            workers = of_pool.findall(told)
            if name == "Celery" and not workers:
                return HeapFloor(
                    keeps_all=True,
                    why=f"memory is not lowered: {name} has {_said(per_worker)} a worker and no fixed number",
                )
            number = int(workers[-1]) if workers else 1
            floor = per_worker * max(1, number)
            return HeapFloor(
                floor, why=f"{name} was told {_said(per_worker)} for each of {number}: {_said(floor)} at least"
            )
    return None


def _bytes(digits: str, unit: str) -> int:
    return int(digits) * _UNITS[unit.lower()]


def _said(amount: int) -> str:
    return f"{amount / MIB:,.0f} MiB"
