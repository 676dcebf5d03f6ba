"""What a program in a container was told about memory: below it no size may go.

A runtime that was given a heap of 2 GiB fills it some day, whatever the last week shows; one that was given a share of
its limit (a JVM's MaxRAMPercentage, 25 % by default) has a smaller heap when the limit is. So a fixed heap is a floor
for request and limit, with room for what is beside the heap. A share keeps the limit as it is, and one that was
written keeps the request from falling below that share of it. Where a setting is there and its value is not (a
reference, a whole ConfigMap, a copy without arguments), memory is not lowered at all.

Options come from several places, whose order depends on wrapper scripts and, for `_JAVA_OPTIONS`, on the runtime: in
one place the last counts, of several the highest.
Limits: settings in files (jvm.options, a wrapper script's own defaults) are not seen, nor is a JVM that an image starts
without a word of it in the pod; CPython has no setting of its own, so only those of worker pools (Celery, uWSGI) count.
Sources: java(1), package runtime of Go, node(1), Celery's and uWSGI's options.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cotenant.model.sizes.container import ContainerProgram, SizedContainer

MIB = 1 << 20
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_GO_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40, "": 1}
_NAME = r"[A-Za-z_][A-Za-z0-9_.-]*"
_REFERENCE = re.compile(rf"\$\(({_NAME})\)")  # as Kubernetes has it
_IN_SHELL = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_ALONE = re.compile(rf"\$(?:\(({_NAME})\)|\{{([A-Za-z_]\w*)\}}|([A-Za-z_]\w*))")
_HEAP = re.compile(r"(?:-Xmx|-XX:MaxHeapSize=)(\d{1,18})([kKmMgGtT]?)(?![\w])")
_FIRST_HEAP = re.compile(r"(?:-Xms|-XX:InitialHeapSize=)(\d{1,18})([kKmMgGtT]?)(?![\w])")
_BESIDE = re.compile(r"-XX:Max(?:DirectMemory|Metaspace)Size=(\d{1,18})([kKmMgGtT]?)(?![\w])")
_SHARE = re.compile(r"-XX:MaxRAMPercentage=(\d{1,3}(?:\.\d+)?)")
_RAM = re.compile(r"-XX:MaxRAM=(\d{1,18})([kKmMgGtT]?)(?![\w])")
_NODE_JS = re.compile(r"--max[-_]old[-_]space[-_]size[= ](\d{1,9})")
_NODE_JS_SHARE = re.compile(r"--max[-_]old[-_]space[-_]size[-_]percentage[= ](\d{1,3}(?:\.\d+)?)")
_GO = re.compile(r"GOMEMLIMIT=(\d{1,18})(B|KiB|MiB|GiB|TiB|)(?!\S)")
_CELERY = re.compile(r"--max-memory-per-child[= ](\d{1,12})")
_CELERY_WORKERS = re.compile(r"(?:--concurrency[= ]|-c[ =]?|--autoscale[= ])(\d{1,5})(?![^\s,])")
_UWSGI = re.compile(r"--(?:reload-on-rss|evil-reload-on-rss)[= ](\d{1,9})")
_UWSGI_WORKERS = re.compile(r"(?:--(?:processes|workers)[= ]|-p[ =]?)(\d{1,5})(?!\S)")
_UNREAD = re.compile(  # a setting whose amount is a reference that is not known here
    r"(-Xm[sx]|-XX:(?:MaxHeapSize|InitialHeapSize|MaxRAM|MaxRAMPercentage)=|GOMEMLIMIT=|--max[-_]old[-_]space[-_]size"
    r"(?:[-_]percentage)?[= ]|--max-memory-per-child[= ]|--(?:evil-)?reload-on-rss[= ])\$"
)
_OPTIONS = re.compile(r".*(JAVA|JVM|JDK|CATALINA|JETTY|HEAP|XMX).*|.*_OPTS|NODE_OPTIONS|GOMEMLIMIT|UWSGI_.*RSS")
_HEAP_NAME = re.compile(r".*(HEAP|XMX).*")
_HEAP_SIZE = re.compile(r"(\d{1,18})([kKmMgGtT])[bB]?")
_IS_JAVA = re.compile(r"(?:^|[/\s;&|(])java(?=$|[\s;&|)])|-XX:|-javaagent:")
_OF_JAVA = re.compile(r".*(JAVA|JVM|JDK|CATALINA|JETTY).*(OPTS?|OPTIONS|ARGS|FLAGS)|JAVA_HOME")
_USUAL_SHARE = 25.0
JVM_BESIDE_PCT, GO_BESIDE_PCT, NODE_JS_BESIDE_PCT = 25, 10, 25  # of the heap: threads, code, buffers
_LEAST_BESIDE = 64 * MIB


@dataclass(frozen=True, slots=True)
class HeapFloor:
    """`bytes` is for request and limit, 0 = none; `keeps_limit`: the heap is a share of it; `share`: which part of the
    limit was told, 0 = none was; `keeps_all`: memory may not be lowered at all. `why` is a sentence, "" where nothing
    was told.
    """

    bytes: int = 0
    keeps_limit: bool = False
    keeps_all: bool = False
    why: str = ""
    share: float = 0.0


NOTHING_TOLD = HeapFloor()


def heap_floor(program: ContainerProgram) -> HeapFloor:
    """What the program was told."""
    if not program.is_known:
        return HeapFloor(
            keeps_all=True, why="memory is not lowered: the copy has no arguments and environment, which may set a heap"
        )
    env = _expanded(program.env)
    places = _places(program, env)
    found = [_jvm(places, env), _go(places), _node_js(places), _python(places)]
    return highest_floor([*(one for one in found if one is not None), *_unread(program, env, places)])


def highest_floor(floors: Iterable[HeapFloor]) -> HeapFloor:
    """What keeps all of these."""
    some = [one for one in dict.fromkeys(floors) if one != NOTHING_TOLD]
    return HeapFloor(
        max((one.bytes for one in some), default=0),
        any(one.keeps_limit for one in some),
        any(one.keeps_all for one in some),
        "; ".join(one.why for one in some),
        max((one.share for one in some), default=0.0),
    )


def lack_floor(containers: Iterable[SizedContainer]) -> HeapFloor:
    """What replicas that ran out of memory keep: they used more than is measured between two looks."""
    if any(one.was_oom_killed for one in containers):
        return HeapFloor(keeps_all=True, why="memory is not lowered: a replica was ended for lack of it")
    return NOTHING_TOLD


def _expanded(env: Sequence[tuple[str, str | None]]) -> dict[str, str | None]:
    """Values with the variables that they refer to; None where one is not known here."""
    found: dict[str, str | None] = {}
    for name, value in env:
        found[name] = None if value is None else _with_references(value, found)
    return found


def _with_references(text: str, env: Mapping[str, str | None]) -> str:
    return _REFERENCE.sub(lambda found: env.get(found[1]) or found[0], text)


def _places(program: ContainerProgram, env: Mapping[str, str | None]) -> list[str]:
    """Where options may be: each variable that has some, as a program would be told them, and the command."""
    found = []
    for name, value in env.items():
        if value is None:
            continue
        if name == "GOMEMLIMIT":
            found.append(f"{name}={value}")
        elif _OPTIONS.fullmatch(name):
            is_size = _HEAP_NAME.fullmatch(name) and _HEAP_SIZE.fullmatch(value)
            found.append(f"-Xmx{value.rstrip('bB')}" if is_size else value)
    uwsgi = [f"--{name[6:].lower().replace('_', '-')} {value}" for name, value in env.items() if name[:6] == "UWSGI_"]
    words = " ".join(_with_references(word, env) for word in program.words)
    words = _IN_SHELL.sub(lambda found: env.get(found[1] or found[2]) or found[0], words)
    return [place.replace('"', "").replace("'", "") for place in (*found, " ".join((*uwsgi, words)))]


def _unread(program: ContainerProgram, env: Mapping[str, str | None], places: Sequence[str]) -> Iterator[HeapFloor]:
    """What may set a heap and cannot be read."""
    said = "memory is not lowered: "
    for name, value in env.items():
        if value is None and _OPTIONS.fullmatch(name):
            yield HeapFloor(keeps_all=True, why=f"{said}the value of {name} is taken from elsewhere")
    for place in places:
        if unread := _UNREAD.search(place):
            yield HeapFloor(keeps_all=True, why=f"{said}the value of {unread[1].rstrip('= ')} is taken from elsewhere")
        for alone in map(_ALONE.fullmatch, place.split()):
            name = next(filter(None, alone.groups()), "") if alone is not None else ""
            if name in env and env[name] is None:
                yield HeapFloor(keeps_all=True, why=f"{said}the value of {name} is taken from elsewhere")
    if program.is_cut:
        yield HeapFloor(keeps_all=True, why=f"{said}its command or environment is too long to be read whole")
    if program.has_more_env:
        yield HeapFloor(
            keeps_all=True, why=f"{said}the environment has a whole ConfigMap or Secret, which is not read here"
        )


def _jvm(places: Sequence[str], env: Mapping[str, str | None]) -> HeapFloor | None:
    heap, first = _highest(_HEAP, places), _highest(_FIRST_HEAP, places)
    shares = [float(found[-1]) for place in places if (found := _SHARE.findall(place))]
    if heap or first:
        heap = max(heap, first)
        beside = max(sum(_bytes(*found) for found in _BESIDE.findall(place)) for place in places)
        floor = heap + max(beside, heap * JVM_BESIDE_PCT // 100, _LEAST_BESIDE)
        is_share = not _highest(_HEAP, places)  # the first heap is no bound of the heap
        why = f"the JVM was told a heap of {_said(heap)}, so {_said(floor)} at least"
        return HeapFloor(floor, keeps_limit=is_share, why=why)
    ram = _highest(_RAM, places)
    is_jvm = any(map(_IS_JAVA.search, places)) or any(map(_OF_JAVA.fullmatch, env))
    if not (shares or ram or is_jvm):
        return None
    share = min(max(shares), 100.0) if shares else _USUAL_SHARE
    if ram:
        heap = int(ram * share / 100)
        floor = heap + max(heap * JVM_BESIDE_PCT // 100, _LEAST_BESIDE)
        return HeapFloor(floor, why=f"the JVM was told {_said(heap)} by MaxRAM, so {_said(floor)} at least")
    said = f"MaxRAMPercentage={share:g}" if shares else "a JVM without a heap setting takes 25 %"
    return _share_of_limit(said, share if shares else 0.0)


def _share_of_limit(said: str, percent: float) -> HeapFloor:
    request = f", nor the request below {percent:g} % of it" if percent else ""
    why = f"the heap is a share of the limit ({said}), so the limit is not lowered{request}"
    return HeapFloor(keeps_limit=True, why=why, share=percent / 100)


def _highest(of: re.Pattern[str], places: Sequence[str]) -> int:
    """Of the last in each place; 0 = in none."""
    return max((_bytes(*found[-1]) for place in places if (found := of.findall(place))), default=0)


def _go(places: Sequence[str]) -> HeapFloor | None:
    told = max((int(found[1]) * _GO_UNITS[found[2]] for found in map(_GO.search, places) if found), default=0)
    if not told:
        return None
    floor = told + max(told * GO_BESIDE_PCT // 100, 16 * MIB)
    return HeapFloor(floor, why=f"GOMEMLIMIT is {_said(told)}, so {_said(floor)} at least")


def _node_js(places: Sequence[str]) -> HeapFloor | None:
    shares = [float(found[-1]) for place in places if (found := _NODE_JS_SHARE.findall(place))]
    if shares:
        return _share_of_limit(f"--max-old-space-size-percentage={max(shares):g}", min(max(shares), 100.0))
    heap = max((int(found[-1]) for place in places if (found := _NODE_JS.findall(place))), default=0) * MIB
    if not heap:
        return None
    floor = heap + max(heap * NODE_JS_BESIDE_PCT // 100, _LEAST_BESIDE)
    return HeapFloor(floor, why=f"node was told a heap of {_said(heap)}, so {_said(floor)} at least")


def _python(places: Sequence[str]) -> HeapFloor | None:
    """Worker pools end a worker above an amount: each may reach it."""
    told = " ".join(places)
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
            number = max(map(int, workers), default=1)
            floor = per_worker * max(1, number)
            return HeapFloor(
                floor, why=f"{name} was told {_said(per_worker)} for each of {number}: {_said(floor)} at least"
            )
    return None


def _bytes(digits: str, unit: str) -> int:
    return int(digits) * _UNITS[unit.lower()]


def _said(amount: int) -> str:
    return f"{amount / MIB:,.0f} MiB"
