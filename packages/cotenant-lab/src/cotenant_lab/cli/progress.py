"""A progress bar on standard error, with the time left; silent without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cotenant_lab.experiment import RunProgress


@contextmanager
def progress(total: int, quiet: bool) -> Iterator[Callable[[RunProgress], None]]:
    """Yields a function that takes each step of `total` runs. Silent if `quiet`, or if standard error is not a
    terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    # Policies differ in cost by a factor of twenty; a long window keeps the time left steady.
    with Progress(*columns, console=Console(stderr=True), speed_estimate_period=300, transient=True) as bar:
        task = bar.add_task("the first runs compile", total=total)

        def on_step(step: RunProgress) -> None:
            spec = step.spec
            words = f"{spec.policy} {spec.load:.0%} seed {spec.seed}{' FAILED' if step.failed else ''}"
            bar.update(task, completed=step.done, description=words)

        yield on_step
