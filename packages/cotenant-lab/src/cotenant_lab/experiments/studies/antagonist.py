"""`antagonist`: four batch groups alternate on a service's core, one of them delays it; which one is determined from
outside.

The antagonist has the same mean use as the others. Each does the same CPU work in each period, at a phase of its own.
Three are of the kernel's idle class, which yields at once; the guilty one, drawn each round, is not, like a pod with a
wrong class. First the service runs alone, so that its normal waiting is known; then all run, watched by the agent's own
search with several signals side by side; at the end the one named by run delay is held to the cap of the lowest class,
and the service's waiting is compared.
Limits: one core; the search runs at a pace of half seconds, the published one of minutes; an empty top rank counts as
wrong.

Source: the search: Zhang et al., CPI2, EuroSys'13; pass line: top place in 80 % of live rounds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.cgroup.layout import detect
from cotenant.model.errors import Unsupported
from cotenant.model.json_object import JsonMapping
from cotenant.model.machine.knob import Knob, KnobTarget, SetKnob
from cotenant.model.machine.node_state import GroupUse
from cotenant.model.pages.figures import OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.statistics import middle, quantile
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant, now_us
from cotenant_lab.experiments.studies.antagonist_search import (
    BLAME,
    LEARNING,
    RUN_DELAY,
    STALL,
    STEP_US,
    AntagonistSearch,
)

ARM = "search"
BATCH_GROUPS = 4
LINE = 0.8
PERIOD_MS, WORK_MS = 4000, 600  # of each batch group: 15 % of the core
GAP_MS, REQUEST_MS = 5.0, 0.75  # of the service: the same
_SERVICE = in_plant("service")
_LEAD_US = 400_000
_SHOWN = {
    RUN_DELAY: "run delay (schedstat) x CPU use",
    STALL: "stall (PSI) x CPU use",
    BLAME: "who ran meanwhile (eBPF)",
}
_STRETCHES = ("alone", "together", "under_cap")
_COLOURS = {RUN_DELAY: OURS, STALL: rival(0), BLAME: rival(1)}


@dataclass(slots=True)
class Antagonist:
    """The experiment: the service alone for `LEARNING` samples, then `watch_s` with all, then `held_s` under the
    cap.
    """

    watch_s: float = 14.0
    held_s: float = 6.0
    name: str = "antagonist"
    title: str = "Which of four batch groups disturbs a service"
    arms: Sequence[str] = (ARM,)

    @property
    def block_s(self) -> float:
        """About how long a round takes."""
        return (LEARNING + 2) * STEP_US / 1e6 + self.watch_s + self.held_s + 2.0

    def prepare(self, site: Site) -> None:
        """Create the groups. Raises `Unsupported` without the idle class, which distinguishes the innocent from the
        guilty.
        """
        site.make_plant("service", *(f"batch-{number}" for number in range(BATCH_GROUPS)))
        gap = site.cgroups.knobs.supported(Knob.CPU_IDLE)
        if gap is not None:
            raise Unsupported("the antagonist experiment", f"the idle class of groups: {gap.needs}")

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One round with a guilty group, phases and arrivals drawn from the seed."""
        random = Random(seed)
        guilty = random.choice(_batch_groups())
        start_us = now_us() + _LEAD_US
        together_us = start_us + (LEARNING + 2) * STEP_US
        end_us = together_us + round((self.watch_s + self.held_s) * 1e6)
        paths = {site.cgroups.path(name): name for name in (_SERVICE, *_batch_groups())}
        service, *batch = paths
        children = [_start_service(site, start_us, end_us, seed), *_start_batch(site, together_us, end_us, random)]
        looks: list[tuple[int, dict[str, GroupUse]]] = []
        for group in batch:
            site.cgroups.knobs.write(KnobTarget(group, Knob.CPU_IDLE), "0" if paths[group] == guilty else "1")
        with AntagonistSearch(detect(), service, batch) as watch:
            watch_end_us = end_us - round(self.held_s * 1e6)
            _sample(site, watch, start_us, watch_end_us, looks)
            capped_us = now_us()
            ways = {
                name: {
                    "first": paths.get(watch.first(name) or ""),
                    "capped": paths.get(way.capped or ""),
                    "after_s": None if way.capped_us is None else (way.capped_us - together_us) / 1e6,
                    "said": way.said,
                }
                for name, way in watch.methods.items()
            }
            with _held(site.cgroups.knobs, watch.methods[RUN_DELAY].cap) as capped:
                _sample(site, watch, now_us(), end_us, looks)
            why_no_probe = watch.why_no_probe
        output = children[0].process.stdout.read() if children[0].process.stdout else b""
        site.stop(*children, kill=True)
        together = [use for at, use in looks if together_us < at <= capped_us]
        return {
            "guilty": guilty,
            "ways": ways,
            "why_no_probe": why_no_probe,
            "capped": capped,
            "alone": _waiting(service, [use for at, use in looks if at <= together_us]),
            "together": _waiting(service, together),
            "under_cap": _waiting(service, [use for at, use in looks if at > capped_us + STEP_US]),
            "use_m": {paths[group]: _mean_m(group, together) for group in batch},
            "p99_us": _p99(json.loads(output)["requests"], together_us - start_us, capped_us - start_us),
            "curve": [
                [
                    round((at - together_us) / 1e6, 2),
                    _waiting(service, [use]),
                    _mean_m(site.cgroups.path(guilty), [use]),
                ]
                for at, use in looks
            ],
        }

    def disturbed(self, record: Record) -> str:
        """Never disturbed by its own measure."""
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Discards none: a round in which no group was named is a result."""
        return {}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """How often each method named the guilty group first, how soon, and the effect of its cap."""
        records = [round_.record(ARM) for round_ in rounds]
        ways: dict[str, dict[str, object]] = {}
        rows, checks, curves = [], [], []
        for name, shown in _SHOWN.items():
            answers = [record["ways"].get(name) for record in records]
            if any(answer is None for answer in answers):
                continue
            guilty = [record["guilty"] for record in records]
            right = sum(answer["first"] == who for answer, who in zip(answers, guilty, strict=True))
            hits = [answer for answer, who in zip(answers, guilty, strict=True) if answer["capped"] == who]
            wrong = sum(answer["capped"] not in (None, who) for answer, who in zip(answers, guilty, strict=True))
            soon = [answer["after_s"] for answer in hits]
            share = right / len(answers)
            ways[name] = {
                "top_place": round(share, 4),
                "capped_right": len(hits),
                "capped_wrong": wrong,
                "median_s": round(middle(soon).value, 2) if soon else None,
            }
            rows.append(
                (shown, str(len(answers)), f"{right} ({share:.0%})", str(len(hits)), str(wrong), _seconds(soon))
            )
            checks.append(FigureCheck(f"guilty one in the top place by {shown}", round(share, 4), LINE, at_least=True))
            curves.append(Curve(shown, list(range(len(answers))), _times(answers), _COLOURS[name], is_points=True))
        found = [record for record in records if record["capped"] == record["guilty"]]
        figures: dict[str, object] = {
            "ways": ways,
            "waiting_s_per_cpu_s": {name: _middle([record[name] for record in found]) for name in _STRETCHES},
            "p99_us": {name: _middle([record["p99_us"][name] for record in found]) for name in _STRETCHES},
            "capped_right": len(found),
            "use_mcpu": _middle([use for record in records for use in record["use_m"].values()]),
        }
        notes = [
            f"Each batch group does {WORK_MS} ms of CPU work every {PERIOD_MS / 1000:g} s at a phase of its own; one, "
            "drawn each round, is not of the idle "
            "class. Top place: over the window when the watch ends; no group above 0 counts as wrong. Capped: the "
            "group that the agent's own search would have "
            "capped first, which also takes an anomaly and a score of 0.35.",
            f"In the {len(found)} rounds in which run delay led to the guilty one, the service waited "
            f"{_course_of(figures, 'waiting_s_per_cpu_s', 1)} s "
            f"for a CPU second and had a p99 of {_course_of(figures, 'p99_us', 1000)} ms: alone, with all four, with "
            "the guilty one held to "
            "0.01 CPU (medians).",
        ]
        if BLAME not in ways:
            why = next((record["why_no_probe"] for record in records if record["why_no_probe"]), "")
            notes.append(f"Without blame by eBPF: {why}.")
        columns = ("signals", "rounds", "top place right", "capped right", "capped wrong", "seconds to the cap")
        pictures = (
            Picture("Seconds until a group would have been capped", "round", "seconds", [("", curves)]),
            _course(rounds[-1].record(ARM)),
        )
        return ExperimentJudgement(figures, checks, columns, rows, notes, pictures)


def _batch_groups() -> list[str]:
    return [in_plant(f"batch-{number}") for number in range(BATCH_GROUPS)]


def _start_service(site: Site, start_us: int, end_us: int, seed: int) -> SiteProcess:
    return site.start_python(
        _SERVICE,
        "cotenant_lab.experiments.loads.bursty_service",
        *("--start-us", str(start_us), "--seconds", str((end_us - start_us) / 1e6)),
        *("--gap-ms", str(GAP_MS), "--work-ms", str(REQUEST_MS), "--seed", str(seed)),
        pipe=True,
    )


def _start_batch(site: Site, together_us: int, end_us: int, random: Random) -> Iterator[SiteProcess]:
    phases = [PERIOD_MS * place // BATCH_GROUPS for place in range(BATCH_GROUPS)]
    random.shuffle(phases)
    for batch_group, phase_ms in zip(_batch_groups(), phases, strict=True):
        yield site.start_python(
            batch_group,
            "cotenant_lab.experiments.loads.phased_batch",
            *("--start-us", str(together_us), "--seconds", str((end_us - together_us) / 1e6 + 1)),
            *("--period-ms", str(PERIOD_MS), "--phase-ms", str(phase_ms), "--work-ms", str(WORK_MS)),
            *("--seed", str(random.randrange(1 << 30))),
        )


def _sample(
    site: Site, watch: AntagonistSearch, from_us: int, until_us: int, looks: list[tuple[int, dict[str, GroupUse]]]
) -> None:
    """Sample every half second."""
    at_us = from_us
    while at_us < until_us:
        site.wait_until(at_us)
        use = watch.sample()
        if use:
            looks.append((now_us(), use))
        at_us += STEP_US


@contextmanager
def _held(knobs: CgroupKnobs, cap: SetKnob | None) -> Iterator[str | None]:
    """Set the cap inside the block; yields the name of the capped group."""
    if cap is None:
        yield None
        return
    before = knobs.raw(cap.target)
    knobs.write(cap.target, cap.value)
    try:
        yield "/".join(cap.target.group.split("/")[1:])
    finally:
        knobs.restore(cap.target, before)


def _waiting(group: str, uses: Sequence[Mapping[str, GroupUse]]) -> float | None:
    """Seconds waited for a CPU per second of CPU time, over these samples."""
    mine = [use[group] for use in uses if group in use]
    waited = sum(use.run_delay_ppm or 0 for use in mine)
    used = sum(use.cpu_m or 0 for use in mine)
    return round(waited / used / 1000, 4) if used else None


def _p99(requests: Sequence[tuple[int, int]], together_us: int, capped_us: int) -> dict[str, float]:
    """The service's 99th percentile alone, with all four, and under the cap; by when a request was due."""
    stretches = {
        "alone": (0, together_us),
        "together": (together_us, capped_us),
        "under_cap": (capped_us + STEP_US, requests[-1][0] + 1),
    }
    return {
        name: quantile([latency for due, latency in requests if first <= due < last], 0.99)
        for name, (first, last) in stretches.items()
    }


def _mean_m(group: str, uses: Sequence[Mapping[str, GroupUse]]) -> int:
    mine = [use[group].cpu_m or 0 for use in uses if group in use]
    return round(sum(mine) / len(mine)) if mine else 0


def _times(answers: Sequence[Any]) -> list[float | None]:
    return [answer["after_s"] for answer in answers]


def _seconds(soon: Sequence[float]) -> str:
    return f"{middle(soon).value:.1f}" if soon else "–"


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(middle(known).value, 4) if known else None


def _course_of(figures: JsonMapping, name: str, divisor: int) -> str:
    values = [figures[name][stretch] for stretch in _STRETCHES]
    return ", ".join("?" if value is None else f"{value / divisor:.2f}" for value in values)


def _course(record: Record) -> Picture:
    at = [point[0] for point in record["curve"]]
    curves = [
        Curve("the guilty group, CPUs", at, [point[2] / 1000 for point in record["curve"]], rival(0), is_filled=True),
        Curve("the service's waiting, seconds per CPU second", at, [point[1] for point in record["curve"]], OURS),
    ]
    return Picture("The last round; the batch groups begin at 0", "seconds", "", [(record["guilty"], curves)])
