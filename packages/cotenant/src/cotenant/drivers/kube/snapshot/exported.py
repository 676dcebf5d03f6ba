"""Objects from files of `kubectl get KINDS -A -o json` as a copy of a cluster.

Someone may not give a command of ours access, and has kubectl. Lists, lists of lists and single objects are read; the
same is kept of each as of a server's. Kinds without a place in a copy are counted by name and left out.
Limits: the files' moment is that of the newest file; nothing says whether a kind that is not there was left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.kinds.workload.declarations import joined
from cotenant.drivers.kube.snapshot.declared import PACKAGED, as_copied
from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.drivers.kube.snapshot.kinds import BY_OBJECT, COPIED, copied_workloads
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading, ObjectCutter, unasked
from cotenant.model.errors import InvalidInput
from cotenant.model.groups.workload_kind import WorkloadKind
from cotenant.model.printable import printable

_DEEPEST = 4  # lists of lists


def read_exported(paths: Sequence[Path], own: Sequence[WorkloadKind] = ()) -> ClusterSnapshot:
    """Read all files as one cluster. `own`: declared kinds beside those of the package. Raises `InvalidInput` where a
    file is no JSON, or none has nodes.
    """
    objects: dict[str, dict[str, bytes]] = {}
    cutters: dict[str, ObjectCutter] = {}
    others: Counter[str] = Counter()
    taken_s = 0.0
    workloads = copied_workloads(own)
    by_object = BY_OBJECT | {(copied.kind.api_version, copied.kind.name): copied for copied in workloads.values()}
    for path in paths:
        try:
            text, taken_s = path.read_bytes(), max(taken_s, path.stat().st_mtime)
        except OSError as error:
            raise InvalidInput(str(path), error.strerror or str(error), "a file that can be read") from None
        try:
            whole: Json = msgspec.json.decode(text)
        except UNREADABLE as error:
            raise InvalidInput(str(path), str(error), "the output of kubectl get -o json") from None
        for api_version, kind, obj in _entries(whole, "", "", 0):
            copied = by_object.get((api_version, kind))
            if copied is None:
                others[kind or "without a kind"] += 1
                continue
            cutter = cutters.setdefault(copied.key, ObjectCutter(copied))
            line = cutter.cut(obj)
            if line is not None:
                objects.setdefault(copied.key, {})[_name(obj)] = line  # of one that is in two files, the last
    if not objects.get("v1/nodes"):
        raise InvalidInput("files", ", ".join(map(str, paths)), "nodes among the objects", "kubectl get nodes,pods -A")
    read = tuple(
        KindRead(key, KindReading.READ, malformed=cutters[key].malformed)
        for key in (COPIED | workloads)
        if key in cutters
    )
    notes: tuple[str, ...] = ()
    if others:
        named = ", ".join(f"{count} {printable(kind[:60])}" for kind, count in sorted(others.items())[:10])
        notes = (f"left out of the files: {named}",)
    return ClusterSnapshot(
        taken_s,
        {key: tuple(found.values()) for key, found in objects.items()},
        (*read, *unasked(cutters)),
        source=f"{len(paths)} files of kubectl get" if len(paths) > 1 else "a file of kubectl get",
        notes=notes,
        workloads=joined(PACKAGED, map(as_copied, own)),
    )


def _entries(value: Json, version: str, kind: str, depth: int) -> Iterator[tuple[str, str, Json]]:
    """Every entry of lists, also of lists in these, with its API version and kind: those of its list where it has none
    of its own, and where it is no object at all.
    """
    if not isinstance(value, dict):
        yield version, kind, value
        return
    version, kind = str(value.get("apiVersion", version)), str(value.get("kind", kind))
    items = value.get("items")
    if not (isinstance(items, list) and depth < _DEEPEST):
        yield version, kind, value
        return
    of = kind.removesuffix("List")
    for item in items:
        yield from _entries(item, version, of, depth + 1)


def _name(obj: Json) -> str:
    meta = obj.get("metadata") if isinstance(obj, dict) else None
    return f"{meta.get('namespace')}/{meta.get('name')}" if isinstance(meta, dict) else ""
