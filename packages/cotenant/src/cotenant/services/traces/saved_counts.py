"""The counts of objectives, kept in a file over a restart.

A budget over four weeks is worth little where every restart empties it. A snapshot of every objective's rings each
minute and at the end, written beside the file and renamed; at the start it is read back for objectives that still count
the same, and with them which spans were counted, so that an exporter that repeats a batch after the restart counts
once. Closed channels are in it too, and are written as soon as one is closed or opened.
Limits: what arrived after the last snapshot of a killed process is lost; sketches and replicas are not kept.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from cotenant.engine.traces.channels import ClosedChannel
from cotenant.engine.traces.objectives import Tracked, TrackedObjectives
from cotenant.model.errors import InvalidInput

VERSION = 1
MAX_BYTES = 512 << 20


class SavedRing(msgspec.Struct, array_like=True):
    """A ring: its newest slot, and the places of slots with requests, their requests, their bad requests."""

    width_s: int
    slots: int
    newest: int
    places: list[int]
    requests: list[int]
    bad: list[int]


class SavedObjective(msgspec.Struct):
    """An objective's counts."""

    counted: str  # what they depend on
    since_s: float
    requests: int
    bad: int
    rings: list[SavedRing]
    is_proven: bool = False  # all counts are of senders of its namespace


class SavedCounts(msgspec.Struct):
    """The file."""

    version: int
    objectives: dict[str, SavedObjective]
    closed: list[ClosedChannel] = []
    seen: bytes = b""  # prints of the last spans that are in the counts (engine/traces/seen_spans.py)


class CountsFile:
    """One file. `restore` gives an objective its counts back when it is set."""

    def __init__(self, path: Path, *, senders_prove: bool = False) -> None:
        """`senders_prove`: there are senders with a proof of their namespace; without them an objective of proven
        senders would never count again. Reads the file. Raises `InvalidInput` where it exists and cannot be read.
        """
        self._path = path
        self._senders_prove = senders_prove
        self._saved: dict[str, SavedObjective] = {}
        self.seen = b""
        self.closed: list[ClosedChannel] = []
        try:
            if path.exists():
                if path.stat().st_size > MAX_BYTES:
                    raise InvalidInput("--state", str(path), f"a file of at most {MAX_BYTES} bytes")
                found = msgspec.msgpack.decode(path.read_bytes(), type=SavedCounts)
                if found.version == VERSION:
                    self._saved, self.seen, self.closed = found.objectives, found.seen, found.closed
            elif not path.parent.is_dir():
                raise InvalidInput("--state", str(path), "a file in a folder that exists")
        except (OSError, msgspec.DecodeError) as error:
            why = f"{error}; move it away to begin anew"
            raise InvalidInput("--state", str(path), "a file of saved counts", why) from None

    def restore(self, tracked: Tracked) -> None:
        """Give an objective the counts that were saved of it, once."""
        saved = self._saved.pop(tracked.objective.key, None)
        if saved is None or saved.counted != _counted(tracked):
            return
        for ring, of in zip(tracked.counts.rings, saved.rings, strict=False):
            sizes = {len(of.places), len(of.requests), len(of.bad)}
            fits = all(0 <= place < ring.slots for place in of.places) and len(sizes) == 1
            if (ring.width_s, ring.slots) == (of.width_s, of.slots) and fits:
                ring.newest = of.newest
                ring.counts[0, of.places] = of.requests
                ring.counts[1, of.places] = of.bad
        tracked.since_s, tracked.requests, tracked.bad = saved.since_s, saved.requests, saved.bad
        tracked.is_proven = saved.is_proven and self._senders_prove

    def save(self, objectives: TrackedObjectives, seen: bytes, closed: Sequence[ClosedChannel] = ()) -> None:
        """Write the counts of all objectives, which spans are in them, and which channels are closed. Raises
        `OSError`.
        """
        found = {tracked.objective.key: _saved(tracked) for tracked in objectives}
        beside = self._path.with_name(f".{self._path.name}.new")
        with beside.open("wb") as file:
            file.write(msgspec.msgpack.encode(SavedCounts(VERSION, {**self._saved, **found}, list(closed), seen)))
        os.replace(beside, self._path)


def _saved(tracked: Tracked) -> SavedObjective:
    rings = []
    for ring in tracked.counts.rings:
        places = np.flatnonzero(ring.counts[0])
        requests, bad = ring.counts[:, places].tolist()
        rings.append(SavedRing(ring.width_s, ring.slots, ring.newest or 0, places.tolist(), requests, bad))
    return SavedObjective(_counted(tracked), tracked.since_s, tracked.requests, tracked.bad, rings, tracked.is_proven)


def _counted(tracked: Tracked) -> str:
    of = tracked.objective
    found = (of.service_namespace, of.service, of.operation, of.indicator.value, of.threshold_us, of.window_s)
    return repr(found if of.goal is None else (*found, str(of.goal.counted)))
