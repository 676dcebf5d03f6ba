"""A copy of a cluster as a value: the objects of each kind, and what of it could not be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from cotenant.drivers.kube.snapshot.declared import PACKAGED, numbered
from cotenant.drivers.kube.snapshot.fields import Json, kept
from cotenant.drivers.kube.snapshot.kinds import COPIED, CopiedKind, copied_workloads
from cotenant.model.groups.workload_kind import WorkloadKind

PAGE = 2000  # objects that a reader is given at a time


class KindReading(StrEnum):
    """How the reading of a kind ended."""

    READ = "read"
    ABSENT = "absent"  # the server does not serve it
    DENIED = "denied"  # the user may not list it
    FAILED = "failed"
    UNASKED = "not in the files"


_UNREAD = (KindReading.DENIED, KindReading.FAILED)


@dataclass(frozen=True, slots=True)
class KindRead:
    """What was read of one kind. `malformed`: entries that were no objects with a name; `missing`: objects that were
    written to a file and are not in it.
    """

    key: str
    reading: KindReading
    why: str = ""
    malformed: int = 0
    missing: int = 0

    @property
    def lack(self) -> str:
        """What could not be read of it, in words; empty = nothing."""
        said = [f"{self.reading.value}, {self.why}".rstrip(", ")] if self.reading in _UNREAD else []
        if self.malformed:
            one = self.malformed == 1
            said.append(f"{self.malformed:,} {'entry was no object' if one else 'entries were no objects'} with a name")
        if self.missing:
            one = self.missing == 1
            said.append(f"{self.missing:,} {'object is' if one else 'objects are'} missing from the file")
        return "; ".join(said)


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """`objects`: JSON of each object, by kind. `taken_s`: Unix time when the reading began."""

    taken_s: float
    objects: Mapping[str, Sequence[bytes]]
    kinds: tuple[KindRead, ...]
    server: str = ""  # version of the API server
    source: str = ""  # where from, in words
    is_anonymised: bool = False
    notes: tuple[str, ...] = field(default=())  # what a reader of the figures must know
    workloads: tuple[WorkloadKind, ...] = PACKAGED  # declared kinds, as the copy has them

    def copied(self, key: str) -> CopiedKind:
        """The kind of objects of the copy."""
        return copied_workloads(self.workloads).get(key) or COPIED[key]

    def count(self, key: str) -> int:
        """Objects of a kind."""
        return len(self.objects.get(key, ()))

    def pages(self, key: str) -> Iterator[bytes]:
        """The objects of a kind as lists that an API server could have sent; at least one."""
        lines = self.objects.get(key, ())
        for first in range(0, max(1, len(lines)), PAGE):
            last = first + PAGE
            token = str(last) if last < len(lines) else ""
            meta = b'{"metadata":{"resourceVersion":"1","continue":"%s"},"items":[' % token.encode()
            yield meta + b",".join(lines[first:last]) + b"]}"

    @property
    def lacking(self) -> tuple[KindRead, ...]:
        """Kinds of which something exists that could not be read."""
        return tuple(kind for kind in self.kinds if kind.lack)


class ObjectCutter:
    """Makes of the objects of one kind what a copy keeps of them."""

    def __init__(self, copied: CopiedKind) -> None:
        self._fields, self._declared = copied.fields, copied.declared
        self._encoder = msgspec.json.Encoder()
        self.malformed = 0

    def cut(self, obj: Json) -> bytes | None:
        """JSON of what is kept; None for what is no object, which is counted."""
        if self._declared is not None and isinstance(obj, dict):
            obj = numbered(self._declared, obj)
        found = kept(obj, self._fields) if isinstance(obj, dict) else None
        meta = found.get("metadata") if isinstance(found, dict) else None
        if not (isinstance(meta, dict) and isinstance(meta.get("name"), str)):
            self.malformed += 1
            return None
        return self._encoder.encode(found)


def unasked(read: Mapping[str, object]) -> tuple[KindRead, ...]:
    """The kinds that a source of files did not have."""
    return tuple(KindRead(key, KindReading.UNASKED) for key in COPIED if key not in read)
