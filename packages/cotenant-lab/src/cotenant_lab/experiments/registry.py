"""The experiments by name, and the files that a run writes.

The command, the demonstration and tests start experiments alike. One function per name; an experiment's module is
imported when it runs.
Limits: none.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant_lab.experiments import harness
from cotenant_lab.experiments.outcome import Findings

RESULTS = "results.json"
REPORT = "report.html"
DEFAULT_ROUNDS = {
    "sine": 3,
    "guard": 12,
    "loop": 3,
    "llm": 3,
    "antagonist": 10,
    "culprit": 10,
    "recovery": 5,
    "burst": 6,
    "overhead": 3,
    "step": 8,
}


def make(name: str, period_s: float | None = None) -> harness.Experiment:
    """The experiment of that name; `period_s`: of the sine's demand, where not its own. Raises `InvalidInput`."""
    if name == "sine":
        from cotenant_lab.experiments.loads.sine_demand import SineDemand
        from cotenant_lab.experiments.studies.sine import SineStudy

        return SineStudy() if period_s is None else SineStudy(SineDemand(period_s=period_s))
    if name == "guard":
        from cotenant_lab.experiments.studies.guard import GuardStudy

        return GuardStudy()
    if name == "burst":
        from cotenant_lab.experiments.studies.burst import BurstStudy

        return BurstStudy()
    if name == "antagonist":
        from cotenant_lab.experiments.studies.antagonist import Antagonist

        return Antagonist()
    if name == "culprit":
        from cotenant_lab.experiments.studies.culprit import Culprit

        return Culprit()
    if name == "recovery":
        from cotenant_lab.experiments.studies.recovery import Recovery

        return Recovery()
    if name == "overhead":
        from cotenant_lab.experiments.studies.overhead import Overhead

        return Overhead()
    if name == "step":
        from cotenant_lab.experiments.studies.step import StepResponse

        return StepResponse()
    if name == "loop":
        from cotenant_lab.experiments.studies.loop import LoopStudy

        return LoopStudy()
    if name == "llm":
        from cotenant_lab.experiments.site.model_server import MODEL_SERVER
        from cotenant_lab.experiments.studies.loop import LoopStudy

        title = "From a model server's metrics to a recovery: a stand-in beside a batch hog"
        return LoopStudy(rate=12.0, name="llm", title=title, application=MODEL_SERVER)
    raise InvalidInput("experiment", name, "one of " + ", ".join(DEFAULT_ROUNDS))


def run(
    experiment: harness.Experiment,
    settings: harness.ExperimentSettings,
    folder: Path,
    command: str,
    report: Callable[[harness.BlockProgress], None],
) -> Findings:
    """Run it, and write `raw.jsonl`, `results.json` and `report.html` in the folder. Raises what `harness.run`
    raises.
    """
    _make(folder)
    outcome = harness.run(experiment, settings, folder, report)
    _write(outcome, folder, command)
    return outcome


def run_kernels(
    folder: Path,
    command: str,
    files: Sequence[Path],
    ticks: Sequence[int],
    rounds: int,
    say: Callable[[str], None],
) -> Findings:
    """The experiment of kernels in guests; writes `results.json` and `report.html`. `files`: images of kernels;
    `ticks`: of those that were built; without both the fetched one. Raises `Unsupported` where this host cannot,
    `Permanent` where a guest fails.
    """
    import asyncio
    import shutil

    from cotenant.drivers.qemu.kernel import kept_kernel
    from cotenant.drivers.qemu.kernel_build import built_kernel
    from cotenant.drivers.qemu.machine import missing
    from cotenant.drivers.qemu.packages import Kernel
    from cotenant_lab.experiments.site.kernel_guest import run_in_guest
    from cotenant_lab.experiments.studies.kernels import measure

    what = "the experiment of kernels"
    if lack := missing():
        raise Unsupported(what, lack)
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        raise Unsupported(what, "redis-server and redis-benchmark (packages redis-server and redis-tools)")
    kernels = [Kernel(file.name, file, ()) for file in files]
    for hz in ticks:
        built = built_kernel(hz)
        if built is None:
            raise Unsupported(what, f"a kernel with {hz} ticks a second: `cotenant zone kernel --hz {hz}` builds one")
        kernels.append(built)
    if not kernels:
        fetched = kept_kernel()
        if fetched is None:
            raise Unsupported(what, "a kernel: `cotenant zone kernel` fetches one")
        kernels = [fetched]
    _make(folder)
    outcome = asyncio.run(measure(kernels, run_in_guest, say, rounds))
    _write(outcome, folder, command)
    return outcome


def run_schedulers(folder: Path, command: str, say: Callable[[str], None]) -> Findings:
    """The experiment of schedulers that know the machine, in guests; writes `results.json` and `report.html`. Raises as
    `run_kernels`.
    """
    import asyncio

    from cotenant.drivers.qemu.kernel import kept_kernel
    from cotenant.drivers.qemu.machine import missing
    from cotenant_lab.experiments.site.kernel_guest import run_in_guest
    from cotenant_lab.experiments.studies.schedulers import measure

    what = "the experiment of schedulers"
    if lack := missing():
        raise Unsupported(what, lack)
    kernel = kept_kernel()
    if kernel is None:
        raise Unsupported(what, "a kernel: `cotenant zone kernel` fetches one")
    _make(folder)
    outcome = asyncio.run(measure(kernel, run_in_guest, say))
    _write(outcome, folder, command)
    return outcome


def run_scheduler_kernels(folder: Path, command: str, versions: Sequence[str], say: Callable[[str], None]) -> Findings:
    """Every object and scheduler on the kernel of each version of Linux, in guests; writes `results.json` and
    `report.html`. Raises as `run_kernels`, `InvalidInput`.
    """
    import asyncio

    from cotenant.drivers.qemu.machine import missing
    from cotenant_lab.experiments.site.kernel_guest import run_in_guest
    from cotenant_lab.experiments.site.kernels_of_series import kernels_of
    from cotenant_lab.experiments.studies.scheduler_kernels import measure

    what = "the experiment of schedulers"
    if lack := missing():
        raise Unsupported(what, lack)
    kernels = kernels_of(versions, say)
    if all(isinstance(kernel, str) for kernel in kernels.values()):
        raise Unsupported(what, "a kernel: " + "; ".join(dict.fromkeys(map(str, kernels.values()))))
    _make(folder)
    outcome = asyncio.run(measure(kernels, run_in_guest, say))
    _write(outcome, folder, command)
    return outcome


def run_zone(folder: Path, command: str) -> Findings:
    """The zone experiment, which is one run without arms in random order; writes `results.json` and `report.html`.
    Raises `Unsupported` where this host cannot.
    """
    from cotenant.drivers.cgroup.layout import detect
    from cotenant_lab.experiments.studies.zone import ZoneTrials, measure

    tree = detect().by_controller.get("cpu")
    if tree is None or tree.version != 2:
        raise Unsupported("the zone experiment", "cgroup v2 for the CPU controller")
    _make(folder)
    with harness.interruptible():
        outcome = measure(Path(tree.path), ZoneTrials())
    _write(outcome, folder, command)
    return outcome


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("--out", str(folder), "a folder that can be written", error.strerror or "") from error


def _write(outcome: Findings, folder: Path, command: str) -> None:
    from cotenant_lab.experiments import page

    try:
        (folder / RESULTS).write_text(encode(outcome) + "\n")
        page.write(folder / REPORT, outcome, command)
    except OSError as error:
        raise Permanent(f"{folder}: the results cannot be written: {error.strerror}") from error


def encode(outcome: Findings) -> str:
    """The result as one JSON object. NaN and infinities are null."""
    return json.dumps(_finite(outcome.to_object()), allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
