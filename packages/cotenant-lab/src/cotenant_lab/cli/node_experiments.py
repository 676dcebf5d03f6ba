"""`cotenant node experiment`: runs an experiment, shows its progress on standard error, and prints the checks as a
table or one JSON object.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cotenant.cli import tables
from cotenant.cli.interrupted import Interrupted
from cotenant.model.errors import InvalidInput
from cotenant_lab.experiments import page, registry
from cotenant_lab.experiments.harness import RAW, BlockProgress, ExperimentSettings
from cotenant_lab.experiments.outcome import CheckVerdict, Findings

STATUS = {CheckVerdict.PASSED: 0, CheckVerdict.FAILED: 1, CheckVerdict.NOT_DECIDED: 3}
_WORDS = {CheckVerdict.PASSED: "pass", CheckVerdict.FAILED: "FAIL", CheckVerdict.NOT_DECIDED: "not decided"}
LONGEST_PERIOD_S = 3600.0
LONGEST_LIMIT_MIN = 1440.0
QUICK_PERIOD_S = 10.0  # of the sine's demand, for a first look
DEMONSTRATION = "cotenant node experiment sine --quick --rounds 1"


def run(
    name: str,
    rounds: int | None,
    out: Path | None,
    seed: int,
    json: bool,
    *,
    period_s: float | None = None,
    once: bool = False,
    limit_min: float | None = None,
) -> int:
    """Run one experiment; the exit status is that of `STATUS`. `period_s`: of the sine's demand; `once`:
    `ExperimentSettings.once`; `limit_min`: no round begins after so many minutes.
    """
    if seed < 0:
        raise InvalidInput("--seed", seed, "0 or more")
    if period_s is not None and not 0 < period_s <= LONGEST_PERIOD_S:
        raise InvalidInput("--period", period_s, f"seconds, above 0, at most {LONGEST_PERIOD_S:g}")
    count = rounds if rounds is not None else registry.DEFAULT_ROUNDS[name]
    settings = (
        ExperimentSettings.once(count, seed) if once else ExperimentSettings(count, seed, max_s=_seconds(limit_min))
    )
    folder = out or Path("runs") / f"node-{name}"
    if folder.exists() and not folder.is_dir():
        raise InvalidInput("--out", str(folder), "a folder", "a file of that name is in the way")
    words = ["cotenant", "node", "experiment", name, "--rounds", str(settings.rounds), "--seed", str(seed)]
    if period_s is not None:
        words += ["--period", f"{period_s:g}"]
    if once:
        words.append("--once")
    if limit_min is not None:
        words += ["--limit", f"{limit_min:g}"]
    try:
        with _progress(quiet=json) as report:
            outcome = registry.run(registry.make(name, period_s), settings, folder, " ".join(words), report)
    except KeyboardInterrupt as error:
        done = f"; what was measured is in {folder / RAW}" if (folder / RAW).exists() else ""
        raise Interrupted(f"interrupted; the experiment's groups are removed{done}") from error
    if json:
        print(registry.encode(outcome))
    else:
        show(outcome, folder)
    return STATUS[outcome.verdict]


def _seconds(limit_min: float | None) -> float | None:
    if limit_min is None:
        return None
    if not 0 < limit_min <= LONGEST_LIMIT_MIN:
        raise InvalidInput("--limit", limit_min, f"minutes, above 0, at most {LONGEST_LIMIT_MIN:g}")
    return limit_min * 60


def run_zone(out: Path | None, json: bool) -> int:
    """The zone experiment: what schedules a service beside batch. Exit status as `run`."""
    return _whole(
        out or Path("runs") / "node-zone",
        json,
        lambda folder: registry.run_zone(folder, "cotenant node experiment zone"),
        "interrupted; the experiment's groups are removed",
    )


def run_schedulers(versions: Sequence[str], out: Path | None, json: bool) -> int:
    """The experiment of schedulers in guests, or of these versions of Linux. Exit status as `run`."""
    if versions:
        command = " ".join(["cotenant node experiment schedulers", *(f"--linux {version}" for version in versions)])
        return _whole(
            out or Path("runs") / "node-schedulers-kernels",
            json,
            lambda folder: registry.run_scheduler_kernels(folder, command, versions, _say),
            "interrupted; the guests have ended",
        )
    return _whole(
        out or Path("runs") / "node-schedulers",
        json,
        lambda folder: registry.run_schedulers(folder, "cotenant node experiment schedulers", _say),
        "interrupted; the guest has ended",
    )


def run_kernels(files: Sequence[Path], ticks: Sequence[int], rounds: int, out: Path | None, json: bool) -> int:
    """The experiment of kernels in guests. Exit status as `run`."""
    if not 1 <= rounds <= 100:
        raise InvalidInput("--rounds", rounds, "1 to 100")
    for file in files:
        if not file.is_file():
            raise InvalidInput("--kernel", str(file), "an image of a kernel")
    compared = [*(f"--kernel {file}" for file in files), *(f"--hz {hz}" for hz in ticks)]
    command = " ".join(["cotenant node experiment kernels", *compared, f"--rounds {rounds}"])
    return _whole(
        out or Path("runs") / "node-kernels",
        json,
        lambda folder: registry.run_kernels(folder, command, files, ticks, rounds, _say),
        "interrupted; the guest has ended",
    )


def _whole(folder: Path, json: bool, work: Callable[[Path], Findings], interrupted: str) -> int:
    """One experiment that has no rounds of its own, shown. `interrupted`: what is said where Ctrl-C ends it."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput("--out", str(folder), "a folder", "a file of that name is in the way")
    try:
        outcome = work(folder)
    except KeyboardInterrupt as error:
        raise Interrupted(interrupted) from error
    if json:
        print(registry.encode(outcome))
    else:
        show(outcome, folder)
    return STATUS[outcome.verdict]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def demonstrate(folder: Path, quiet: bool) -> Findings:
    """The sine experiment in its short form, once, even on a busy machine: about 45 s. Raises as an experiment does."""
    with _progress(quiet) as report:
        return registry.run(
            registry.make("sine", QUICK_PERIOD_S), ExperimentSettings.once(1), folder, DEMONSTRATION, report
        )


def show(outcome: Findings, folder: Path) -> None:
    """Print the checks, readable."""
    tables.print_line(outcome.title, strong=True)
    if outcome.columns:
        tables.print_words(outcome.columns, outcome.rows, emphasised=("regulated",), right=outcome.columns[1:])
    rows = []
    for check in outcome.checks:
        value, interval, line = page.shown(check)
        rows.append((check.what, value, interval or "–", line, _WORDS[check.verdict]))
    print()
    tables.print_words(
        ("check", "measured", "95 % interval", "pass line", ""),
        rows,
        emphasised=(_WORDS[CheckVerdict.FAILED],),
        right=("measured", "95 % interval", "pass line"),
    )
    print()
    for note in outcome.notes:
        tables.print_folded(note)
    tables.print_folded(
        f"Rounds that count: {outcome.rounds}, left out: {len(outcome.discarded)}; disturbed blocks run again: "
        f"{outcome.repeated}. Other work used at most {outcome.worst_foreign:.1%} of the plant's core in a "
        f"block, the hypervisor stole at most {outcome.worst_steal:.1%}."
    )
    for number, why in outcome.discarded:
        tables.print_folded(f"  round {number} left out: {why}")
    if outcome.why_not_decided:
        tables.print_folded(f"Not decided: {outcome.why_not_decided}. Such figures are shown, and prove nothing.")
    tables.print_line(f"report: {folder / registry.REPORT}")


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[BlockProgress], None]]:
    if quiet:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield lambda step: print(f"{step.done} of {step.total}: {step.arm}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"))
    # No redraw thread: children are started from this process, and the measurement shares this core.
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True) as bar:
        task = bar.add_task("starting", total=None, left="")

        def report(step: BlockProgress) -> None:
            left = (
                f"about {step.seconds_left / 60:.0f} min left"
                if step.seconds_left > 90
                else f"about {step.seconds_left:.0f} s left"
            )
            bar.update(task, completed=step.done, total=step.total, description=step.arm, left=left, refresh=True)

        yield report
