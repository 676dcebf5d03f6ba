"""Runs `cotenant assess` and shows how far it is and what it found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cotenant.drivers.kube.snapshot.archive import write_archive
from cotenant.drivers.kube.snapshot.reading import Progress
from cotenant.drivers.kube.snapshot.snapshot import Snapshot
from cotenant.model.printable import printable
from cotenant.services.assess.arguments import ReadArguments
from cotenant.services.assess.reading import read_cluster, without_names

INCOMPLETE = 3  # exit status: something could not be read, the rest is there


@contextmanager
def progressing(is_quiet: bool) -> Iterator[Progress]:
    """One line on standard error where that is a terminal, else nothing."""
    is_shown = not is_quiet and sys.stderr.isatty()

    def progress(kind: str, objects: int) -> None:
        if is_shown:
            sys.stderr.write(f"\r\x1b[K{objects:,} objects read, {kind}")
            sys.stderr.flush()

    try:
        yield progress
    finally:
        if is_shown:
            sys.stderr.write("\r\x1b[K")


def lacking(snapshot: Snapshot) -> list[str]:
    """A sentence for each kind that could not be read."""
    return [f"not read: {kind.key.rpartition('/')[2]} ({kind.reading}): {kind.why}" for kind in snapshot.lacking]


def dump(request: ReadArguments, out: Path, anonymise: bool) -> int:
    """Read a cluster and write its copy; returns the exit status."""
    with progressing(request.quiet) as progress:
        snapshot = read_cluster(request, progress)
    missing = lacking(snapshot)
    written, history = without_names(snapshot, None) if anonymise else (snapshot, None)
    size = write_archive(out, written, history)
    print(
        f"{printable(str(out))}: {snapshot.count('v1/nodes'):,} nodes, {snapshot.count('v1/pods'):,} pods, "
        f"{sum(map(len, snapshot.objects.values())):,} objects in all, {size / 1e6:.1f} MB"
        f"{', names replaced' if anonymise else ''}"
    )
    for line in missing:
        print("cotenant:", printable(line), file=sys.stderr)
    return INCOMPLETE if missing else 0
