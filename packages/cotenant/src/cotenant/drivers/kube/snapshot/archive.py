"""A copy of a cluster as one file, to be read on another machine.

A zip with `manifest.json`, a file of JSON lines for each kind, and use over time as raw columns
([guide](docs/guide/assess.md)). The manifest has the format's version: a file of a newer version is refused, and fields
that this version does not know are skipped. A file that someone sends is not trusted: only names that the manifest may
have are opened, sizes are checked before anything is unpacked, and a line that is no object is counted.
Limits: histories are stored uncompressed by column, in float32.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from math import prod
from pathlib import Path

import msgspec
import numpy as np

from cotenant import __version__
from cotenant.drivers.kube.client.errors import UNREADABLE
from cotenant.drivers.kube.snapshot.archived_meters import ArchivedMeters, archived, of_archive, renamed_meters
from cotenant.drivers.kube.snapshot.declared import PACKAGED
from cotenant.drivers.kube.snapshot.fields import Json
from cotenant.drivers.kube.snapshot.kinds import COPIED, copied_workloads
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot, KindRead, KindReading, ObjectCutter
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, Float32, PodHistory
from cotenant.model.assess.meters import NO_METERS
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.groups.object_number import ObjectNumber
from cotenant.model.groups.workload_kind import WorkloadKind

FORMAT, VERSION = "cotenant-assess", 1
MANIFEST = "manifest.json"
MAX_BYTES = 8 << 30  # unpacked, of all files together
MAX_OBJECT_BYTES = 16 << 20  # a server takes no object above 3 MiB
MAX_MANIFEST_BYTES = 256 << 20  # names of series are in it
_LEVEL = 4
_NUMBERS = ("minimum", "paused", "ready")  # that a declared kind may have beside its replicas


class _Kind(msgspec.Struct, omit_defaults=True):
    key: str
    reading: str
    why: str = ""
    malformed: int = 0
    objects: int = 0  # lines of the kind's member
    missing: int = 0


class _Workload(msgspec.Struct, omit_defaults=True):
    """A declared kind. `numbers`: which of its numbers the objects have."""

    kind: str
    api: str
    plural: str
    labels: list[str]  # of its pods: its name, the gang, the role
    numbers: list[str]


class _Series(msgspec.Struct, omit_defaults=True):
    """One history; its columns are in NAME.cpu_m and NAME.memory_mib, little-endian float32 by series."""

    start_s: float
    step_s: float
    steps: int
    names: list[str]
    source: str = ""


class _Pods(msgspec.Struct, omit_defaults=True):
    use: _Series
    node: list[str]
    workload: list[str]


class _History(msgspec.Struct, omit_defaults=True):
    pods: _Pods
    nodes: _Series
    faults: list[str] = []
    meters: ArchivedMeters | None = None


class _Head(msgspec.Struct):
    """What every version has."""

    format: str
    version: int


class _Manifest(msgspec.Struct, omit_defaults=True, kw_only=True):
    format: str
    version: int
    cotenant: str = ""
    taken: datetime
    server: str = ""
    source: str = ""
    is_anonymised: bool = False
    notes: list[str] = []
    kinds: list[_Kind] = []
    history: _History | None = None
    workloads: list[_Workload] | None = None


def write_archive(path: Path, snapshot: ClusterSnapshot, history: ClusterHistory | None = None) -> int:
    """Write the file beside its place and rename it; returns its size. Raises `Permanent`, e.g. on a full disk."""
    manifest = _Manifest(
        format=FORMAT,
        version=VERSION,
        cotenant=__version__,
        taken=datetime.fromtimestamp(snapshot.taken_s, UTC),
        server=snapshot.server,
        source=snapshot.source,
        is_anonymised=snapshot.is_anonymised,
        notes=list(snapshot.notes),
        kinds=[
            _Kind(kind.key, kind.reading.value, kind.why, kind.malformed, snapshot.count(kind.key), kind.missing)
            for kind in snapshot.kinds
        ],
        history=_history_of(history) if history is not None else None,
        workloads=[_written(kind) for kind in snapshot.workloads],
    )
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as file:
            file.writestr(MANIFEST, msgspec.json.encode(manifest))
            for key, lines in snapshot.objects.items():
                with file.open(_member(key), "w", force_zip64=True) as member:
                    for first in range(0, len(lines), 1000):
                        member.write(b"".join(line + b"\n" for line in lines[first : first + 1000]))
            if history is not None:
                for name, values in _columns(history):
                    with file.open(f"history/{name}", "w", force_zip64=True) as member:
                        member.write(np.ascontiguousarray(values, "<f4").tobytes())
        size = unfinished.stat().st_size
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise Permanent(f"{path} cannot be written: {error.strerror or error}") from error
    return size


def read_archive(path: Path) -> tuple[ClusterSnapshot, ClusterHistory | None]:
    """Read a file of this version or an earlier one. Raises `InvalidInput`."""
    try:
        with zipfile.ZipFile(path) as file:
            total = sum(info.file_size for info in file.infolist())
            if total > MAX_BYTES:
                raise InvalidInput(str(path), f"{total} bytes", f"at most {MAX_BYTES} when it is unpacked")
            manifest = _manifest(path, file)
            snapshot = _snapshot(path, file, manifest)
            history = _read_history(path, file, manifest.history) if manifest.history is not None else None
    except OSError as error:
        raise InvalidInput(str(path), error.strerror or str(error), "a file that can be read") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise InvalidInput(str(path), str(error) or type(error).__name__, "a file of `cotenant assess dump`") from None
    return snapshot, history


def _manifest(path: Path, file: zipfile.ZipFile) -> _Manifest:
    if MANIFEST not in file.namelist():
        raise InvalidInput(str(path), "no manifest.json", "a file of `cotenant assess dump`")
    if file.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
        raise InvalidInput(f"{path}: {MANIFEST}", "very large", f"at most {MAX_MANIFEST_BYTES} bytes")
    text = file.read(MANIFEST)
    try:
        head = msgspec.json.decode(text, type=_Head)
    except UNREADABLE as error:
        raise InvalidInput(f"{path}: {MANIFEST}", str(error), "that of `cotenant assess dump`") from None
    if head.format != FORMAT:
        raise InvalidInput(f"{path}: format", head.format, FORMAT)
    if head.version > VERSION or head.version < 1:
        raise InvalidInput(
            f"{path}: version",
            head.version,
            f"1 to {VERSION}",
            "it was written by a newer cotenant: report it with that one" if head.version > VERSION else "",
        )
    try:
        found = msgspec.json.decode(text, type=_Manifest)
    except UNREADABLE as error:
        raise InvalidInput(f"{path}: {MANIFEST}", str(error), f"format version {VERSION}") from None
    if not 1970 < found.taken.year < 9999:  # the ends may be another year elsewhere
        raise InvalidInput(f"{path}: taken", found.taken.isoformat(), "a time from 1971 to 9998")
    return found


def _snapshot(path: Path, file: zipfile.ZipFile, manifest: _Manifest) -> ClusterSnapshot:
    names = set(file.namelist())
    objects: dict[str, list[bytes]] = {}
    kinds: list[KindRead] = []
    workloads = PACKAGED if manifest.workloads is None else tuple(map(_declared, manifest.workloads))
    known = COPIED | copied_workloads(workloads)
    for kind in manifest.kinds:
        copied = known.get(kind.key)
        try:
            reading = KindReading(kind.reading)
        except ValueError:
            raise InvalidInput(f"{path}: kinds[{kind.key}].reading", kind.reading, ", ".join(KindReading)) from None
        if copied is None or kind.key in objects:
            continue  # a kind that a later version reads, or one named twice
        malformed = 0
        member = _member(kind.key)
        if member in names:
            cutter, lines = ObjectCutter(copied), list[bytes]()
            with file.open(member) as stream:
                while line := stream.readline(MAX_OBJECT_BYTES + 1):
                    if len(line) > MAX_OBJECT_BYTES:
                        where = f"{path}: {member}, line {len(lines) + cutter.malformed + 1}"
                        raise InvalidInput(where, "very long", f"at most {MAX_OBJECT_BYTES} bytes")
                    cut = _cut(cutter, line)
                    if cut is not None:
                        lines.append(cut)
            objects[kind.key], malformed = lines, cutter.malformed
        missing = max(0, kind.objects - len(objects.get(kind.key, ())) - malformed)
        kinds.append(KindRead(kind.key, reading, kind.why, kind.malformed + malformed, kind.missing + missing))
    return ClusterSnapshot(
        manifest.taken.timestamp(),
        objects,
        tuple(kinds),
        manifest.server,
        manifest.source,
        manifest.is_anonymised,
        tuple(manifest.notes),
        workloads,
    )


def _written(kind: WorkloadKind) -> _Workload:
    numbers = [name for name in _NUMBERS if getattr(kind, name) is not None]
    return _Workload(kind.kind, kind.api, kind.plural, [kind.name_label, kind.group_label, kind.role_label], numbers)


def _declared(found: _Workload) -> WorkloadKind:
    name, group, role, *_ = (*found.labels, "", "", "")
    minimum, paused, ready = (
        ObjectNumber(f"status.{number}") if number in found.numbers else None for number in _NUMBERS
    )
    return WorkloadKind(
        found.kind,
        found.api,
        found.plural,
        ObjectNumber("status.replicas"),
        name,
        group,
        role,
        minimum=minimum,
        paused=paused,
        ready=ready,
    )


def _cut(cutter: ObjectCutter, line: bytes) -> bytes | None:
    if not line.strip():
        return None
    try:
        obj: Json = msgspec.json.decode(line)
    except UNREADABLE:
        obj = None
    return cutter.cut(obj)


def _member(key: str) -> str:
    return f"objects/{key.replace('/', '_')}.jsonl"


def _history_of(history: ClusterHistory) -> _History:
    pods = history.pods
    return _History(
        _Pods(_series(pods.use), list(pods.node), list(pods.workload)),
        _series(history.nodes),
        list(history.faults),
        archived(history.meters),
    )


def _series(history: AssessedHistory) -> _Series:
    return _Series(history.start_s, history.step_s, history.steps, list(history.names), history.source)


def _columns(history: ClusterHistory) -> Sequence[tuple[str, Float32]]:
    pods, nodes = history.pods, history.nodes
    return (
        ("pods.cpu_m", pods.use.cpu_m),
        ("pods.memory_mib", pods.use.memory_mib),
        ("pods.cpu_request_m", pods.cpu_request_m),
        ("pods.memory_request_mib", pods.memory_request_mib),
        ("nodes.cpu_m", nodes.cpu_m),
        ("nodes.memory_mib", nodes.memory_mib),
    )


def _read_history(path: Path, file: zipfile.ZipFile, written: _History) -> ClusterHistory:
    def column(name: str, *shape: int) -> Float32:
        where, member = f"{path}: history/{name}", f"history/{name}"
        if member not in file.namelist():
            raise InvalidInput(where, "missing", "the columns that the manifest names")
        wanted = 4 * prod(shape)
        if min(shape) < 0:
            raise InvalidInput(f"{path}: history, steps of {name}", min(shape), "0 or more")
        if file.getinfo(member).file_size != wanted:
            raise InvalidInput(where, f"{file.getinfo(member).file_size} bytes", f"{wanted} bytes")
        return np.frombuffer(file.read(member), "<f4").astype(np.float32).reshape(shape)

    def series(name: str, of: _Series) -> AssessedHistory:
        shape = (len(of.names), of.steps)
        cpu_m, memory_mib = column(f"{name}.cpu_m", *shape), column(f"{name}.memory_mib", *shape)
        return AssessedHistory(of.start_s, of.step_s, tuple(of.names), _sane(cpu_m), _sane(memory_mib), of.source)

    pods = written.pods
    count = len(pods.use.names)
    return ClusterHistory(
        PodHistory(
            series("pods", pods.use),
            tuple(pods.node),
            tuple(pods.workload),
            _sane(column("pods.cpu_request_m", count)),
            _sane(column("pods.memory_request_mib", count)),
        ),
        series("nodes", written.nodes),
        tuple(written.faults),
        of_archive(written.meters) if written.meters is not None else NO_METERS,
    )


def _sane(values: Float32) -> Float32:
    """Without what no meter measures: negative and infinite values are unknown."""
    return np.where(np.isfinite(values) & (values >= 0), values, np.float32(np.nan))


def renamed_history(history: ClusterHistory, word: Callable[[str], str], keyed: Callable[[str], str]) -> ClusterHistory:
    """With other names: `word` of a node, `keyed` of a text with `/`."""
    pods, nodes = history.pods, history.nodes
    return ClusterHistory(
        PodHistory(
            _renamed(pods.use, keyed),
            tuple(word(name) for name in pods.node),
            tuple(keyed(name) for name in pods.workload),
            pods.cpu_request_m,
            pods.memory_request_mib,
        ),
        _renamed(nodes, word),
        (f"{len(history.faults)} faults, whose words are left out",) if history.faults else (),
        renamed_meters(history.meters, word, keyed),
    )


def _renamed(history: AssessedHistory, name: Callable[[str], str]) -> AssessedHistory:
    return AssessedHistory(
        history.start_s,
        history.step_s,
        tuple(map(name, history.names)),
        history.cpu_m,
        history.memory_mib,
        history.source,
    )
