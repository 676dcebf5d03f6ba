"""Results of the lab: experiments in a folder, their tables, and the curves of single runs.

    /api/lab                                        the experiments, the newest first
    /api/lab/results?of=NAME                        results.json of one, with the definitions of its figures
    /api/lab/curves?of=NAME&policy=&load=&seed=     the curves of one run
    /api/lab/machines?of=NAME&policy=&load=&seed=   its machines over time

Results are compared while an experiment still runs, and on machines that did not run it. Folders that `cotenant lab
compare` wrote are read when they are asked for, by names that were listed, never by a path of the viewer's.
Limits: folders up to two levels below the given one, at most `MAX_FOLDERS`; results of node experiments have another
form and are not listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from glob import escape
from itertools import chain
from pathlib import Path

import msgspec

from cotenant.drivers.kube.client.errors import UNREADABLE, NotFound
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.results.forms import RESULTS_JSON, RUNS, run_name
from cotenant.model.results.views import CurveView, MachineFramesView, MetricView, curve_view, frames_view
from cotenant.services.console.views.run_files import load_frames, load_series

MAX_FOLDERS = 300
MAX_BYTES = 32 << 20


class _Row(msgspec.Struct, frozen=True):
    policy: str
    load: float


class _Results(msgspec.Struct, frozen=True):
    """What the list shows of a results.json."""

    workload: str
    rows: tuple[_Row, ...]
    seeds: int = 0
    loads: tuple[float, ...] = ()
    failed: tuple[object, ...] = ()
    metrics: tuple[MetricView, ...] = ()  # `forms.METRICS`; none in a file of an older version


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """One folder. `written`: Unix time of its results."""

    name: str
    workload: str
    policies: tuple[str, ...]
    loads: tuple[float, ...]
    seeds: int
    failed: int
    written: float


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """`results` is the file as it is."""

    name: str
    written: float
    metrics: tuple[MetricView, ...]
    results: msgspec.Raw


class Results:
    """The experiments of a folder; None = none was given."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._listed: dict[
            str, tuple[float, ExperimentFolder | None]
        ] = {}  # by name: time of the file, and what it says

    async def answer(self, names: Sequence[str], query: Mapping[str, str]) -> object:
        """The answer to a page below `/api/lab`. Raises `NotFound`, `InvalidInput`, `Permanent`."""
        match names:
            case []:
                return await asyncio.to_thread(self.experiments)
            case ["results"]:
                return await asyncio.to_thread(self.results, query.get("of", ""))
            case ["curves"]:
                return await asyncio.to_thread(self.curves, query)
            case ["machines"]:
                return await asyncio.to_thread(self.machines, query)
        raise NotFound("there is no such page")

    def experiments(self) -> list[ExperimentFolder]:
        """Every experiment with results, the newest first. Raises `NotFound` where no folder was given."""
        if self._folder is None:
            raise NotFound("no folder of results is configured: cotenant console --results DIR")
        found = {}
        for path in self._paths(self._folder):
            name = path.parent.relative_to(self._folder).as_posix()
            try:
                written_s = path.stat().st_mtime
            except OSError:
                continue
            known = self._listed.get(name)
            found[name] = known if known is not None and known[0] == written_s else (written_s, _read(path, name))
        self._listed = found
        listed = [experiment for _, experiment in found.values() if experiment is not None]
        return sorted(listed, key=lambda experiment: (-experiment.written, experiment.name))

    def results(self, name: str) -> ExperimentPage:
        """The tables of one. Raises `NotFound`."""
        listed, path = self._one(name)
        body = _bytes(path)
        if body is None:
            raise NotFound(f"the results of {name} cannot be read")
        try:
            metrics = msgspec.json.decode(body, type=_Results).metrics
        except UNREADABLE as error:
            raise NotFound(f"the results of {name} are no longer what was listed: {error}") from error
        if not metrics:
            raise NotFound(
                f"the results of {name} lack the definitions of their figures, as an older version wrote them: "
                "repeat the command that made them"
            )
        return ExperimentPage(name, listed.written, metrics, msgspec.Raw(body))

    def curves(self, query: Mapping[str, str]) -> list[CurveView]:
        """The curves of one run; the newest where sources changed between runs. Raises `NotFound`, `InvalidInput`,
        `Permanent`.
        """
        return [curve_view(series) for series in load_series(self._run(query))]

    def machines(self, query: Mapping[str, str]) -> MachineFramesView:
        """The machines of one run over time, as `curves`. Raises `NotFound` also where the run has none."""
        frames = load_frames(self._run(query))
        if frames is None or not len(frames.time_s):
            raise NotFound(
                "this run has no machine map over time: its workload has none, or an older version stored it"
            )
        return frames_view(frames)

    def _run(self, query: Mapping[str, str]) -> Path:
        """The newest file of one run."""
        listed, path = self._one(query.get("of", ""))
        policy = query.get("policy", "")
        if policy not in listed.policies:
            raise NotFound(f"{listed.name} has no policy {policy}")
        try:
            load, seed = float(query.get("load", "")), int(query.get("seed", "0"))
        except ValueError:
            raise InvalidInput("load, seed", f"{query.get('load')}, {query.get('seed')}", "numbers") from None
        pattern = f"{escape(run_name(policy, load, seed))}*.json"
        runs = sorted(path.parent.joinpath(RUNS).glob(pattern), key=lambda entry: entry.stat().st_mtime)
        if not runs:
            raise NotFound(f"{listed.name} has no run of {policy} at load {load:g} with seed {seed}")
        return runs[-1]

    def _one(self, name: str) -> tuple[ExperimentFolder, Path]:
        found = next((experiment for experiment in self.experiments() if experiment.name == name), None)
        if found is None or self._folder is None:
            raise NotFound(f"there is no experiment {name}")
        return found, self._folder / name / RESULTS_JSON

    def _paths(self, folder: Path) -> list[Path]:
        try:
            levels = (folder.glob(f"{'*/' * depth}{RESULTS_JSON}") for depth in range(3))
            return sorted(chain.from_iterable(levels))[:MAX_FOLDERS]
        except OSError as error:
            raise Permanent(f"{folder}: {error.strerror}") from error


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except OSError:
        return None


def _read(path: Path, name: str) -> ExperimentFolder | None:
    """None where the file has another form."""
    body = _bytes(path)
    try:
        found = msgspec.json.decode(body or b"", type=_Results)
        written_s = path.stat().st_mtime
    except (*UNREADABLE, OSError):
        return None
    policies = tuple(dict.fromkeys(row.policy for row in found.rows))
    loads = found.loads or tuple(dict.fromkeys(row.load for row in found.rows))
    return ExperimentFolder(name, found.workload, policies, loads, found.seeds, len(found.failed), written_s)
