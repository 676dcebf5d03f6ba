"""Runs `cotenant assess`: shows how far it is, prints the report, writes its files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from cotenant import __version__
from cotenant.cli.assess.assess_tables import show
from cotenant.drivers.kube.snapshot.archive import write_archive
from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.model.assess.history import ClusterHistory
from cotenant.model.assess.report import AssessmentReport
from cotenant.model.assess.what_if import AskedCases
from cotenant.model.counted import counted
from cotenant.model.errors import Permanent
from cotenant.model.printable import printable
from cotenant.services.assess.assess_arguments import ReadArguments
from cotenant.services.assess.copy_reading import read_cluster, read_files, read_use, without_names
from cotenant.services.assess.copying import copied
from cotenant.services.assess.page import page
from cotenant.services.assess.what_ifs.comparing import compared
from cotenant.services.assess.what_ifs.outcomes import CaseInputs, as_it_is
from cotenant.services.assess.whole_report import assess as judge
from cotenant.services.prices import price_table

INCOMPLETE = 3  # exit status: something could not be read, the rest is there


class _Progress:
    """One line on standard error where that is a terminal, else nothing."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()

    def objects(self, kind: str, objects: int) -> None:
        self.say(f"{counted(objects, 'object')} read, {kind}")

    def parts(self, what: str, done: int, of: int) -> None:
        self.say(f"{what}: {done:,} of {of:,} parts")

    def say(self, words: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r\x1b[K{words}")
            sys.stderr.flush()

    def end(self) -> None:
        self.say("")


def assess(
    request: ReadArguments, html: Path | None, prices: Path | None, risk: float, asked: AskedCases, as_json: bool
) -> int:
    """Read a cluster and report; returns the exit status."""
    table, progress = price_table(prices), _Progress(request.quiet)
    snapshot, history = _read(request, progress)
    return _report(CaseInputs(snapshot, history, risk, table), html, asked, as_json, progress)


def dump(request: ReadArguments, out: Path, anonymise: bool) -> int:
    """Read a cluster and write its copy; returns the exit status."""
    progress = _Progress(request.quiet)
    snapshot, history = _read(request, progress)
    progress.say(f"writing {out.name}")
    written = without_names(snapshot, history) if anonymise else (snapshot, history)
    size = write_archive(out, *written)
    progress.end()
    print(
        f"{printable(str(out))}: {counted(snapshot.count('v1/nodes'), 'node')}, "
        f"{counted(snapshot.count('v1/pods'), 'pod')}, "
        f"{counted(sum(map(len, snapshot.objects.values())), 'object')} in all, {size / 1e6:.1f} MB"
        f"{', names replaced' if anonymise else ''}"
    )
    for kind in snapshot.lacking:
        text = f"not read: {kind.key.rpartition('/')[2]}: {kind.lack}"
        print("cotenant:", printable(text), file=sys.stderr)
    return INCOMPLETE if snapshot.lacking else 0


def report(
    files: Sequence[Path],
    workload_kinds: Path | None,
    html: Path | None,
    prices: Path | None,
    risk: float,
    asked: AskedCases,
    is_quiet: bool,
    as_json: bool,
) -> int:
    """Report on a copy; returns the exit status."""
    table = price_table(prices)
    snapshot, history = read_files(files, workload_kinds)
    return _report(CaseInputs(snapshot, history, risk, table), html, asked, as_json, _Progress(is_quiet))


def _read(request: ReadArguments, progress: _Progress) -> tuple[ClusterSnapshot, ClusterHistory | None]:
    try:
        return read_cluster(request, progress.objects), read_use(request, progress.parts)
    finally:
        progress.end()


def _report(given: CaseInputs, html: Path | None, asked: AskedCases, as_json: bool, progress: _Progress) -> int:
    try:
        progress.say("building the engine")
        copy = copied(given.snapshot)
        before = as_it_is(given, copy) if asked.cases else None  # one engine serves both
        found = judge(given.snapshot, given.history, given.risk, progress.say, given.prices, copy)
        if asked.cases:
            del copy  # each case has an engine of its own
            cases = compared(given, asked.cases, asked.seeds, progress.say, before=before)
            found = replace(found, what_ifs=cases)
    finally:
        progress.end()
    if html is not None:
        _write_page(html, found)
    if as_json:
        print(msgspec.json.encode(found).decode())
    else:
        show(found)
        if html is not None:
            print(f"\nThe same as a page: {printable(str(html))}")
    return INCOMPLETE if found.source.lacking else 0


def _write_page(path: Path, found: AssessmentReport) -> None:
    text = page(found, f"Written by cotenant {__version__}, on a copy of {found.source.taken}.")
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8", errors="replace")
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise Permanent(f"{path} cannot be written: {error.strerror or error}") from error
