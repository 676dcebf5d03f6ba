"""`culprit`: a service in trouble for three causes, beside four batch groups: is the guilty group named, and no group
where the service is its own cause?

Naming the right pod is easy to show and naming none is not: an answer that always names someone would pass. Three arms.
Each begins calm, with four batch groups of the kernel's idle class that burst at times of their own. Then, in
`neighbour`, one group, drawn each round, leaves the idle class and has a large weight, as a pod of a wrong class with a
large request does; in `own-load` the service's requests become more frequent; in `own-quota` the service's limit is
lowered below its need. The agent's attribution reads the groups and the service's reported latency every half second;
the first pod that it names is what the agent would act on.
Limits: one core; nothing is capped, so what would follow is not measured here. A limit that is added to a group without
one is read within eight periods on cgroup v1 (drivers/cgroup/counters.py); here there is one from the start.

Source: the causes: docs/guide/recovery.md; Netflix' remark that throttling by a quota looks like waiting for others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from cotenant.drivers.cgroup.layout import detect
from cotenant.model.errors import Unsupported
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.pages.figures import OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.statistics import middle
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site.site import Site, SiteProcess, in_plant, now_us
from cotenant_lab.experiments.studies.culprit_watch import ALL, METHODS, CulpritWatch, WindowFile

NEIGHBOUR, OWN_LOAD, OWN_QUOTA = "neighbour", "own-load", "own-quota"
SUSPECTS = 4
LINE = 0.9
STEP_US = 500_000
OBJECTIVE_US = 6_000
GAP_MS, REQUEST_MS = 5.0, 0.75  # of the service: 15 % of the core
GROWTH = 6.5  # of its requests, in `own-load`
WEIGHT = "1000"  # of the guilty group: ten times the service's
AMPLE, QUOTA = "100000 100000", "8000 100000"  # in `own-quota`: before the trouble, and about half of its need
PERIOD_MS, WORK_MS = 2000, 500  # of each batch group
_SERVICE = in_plant("service")
_LEAD_US = 400_000
_COLOURS = dict(zip(METHODS, (rival(1), OURS, rival(0)), strict=True))


@dataclass(slots=True)
class Culprit:
    """The experiment: `calm_s` before the trouble, at most `trouble_s` of it."""

    calm_s: float = 6.0
    trouble_s: float = 6.0
    name: str = "culprit"
    title: str = "Who is the cause of a service's trouble, if anyone"
    arms: Sequence[str] = (NEIGHBOUR, OWN_LOAD, OWN_QUOTA)

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.calm_s + self.trouble_s + 1.5

    def prepare(self, site: Site) -> None:
        """Create the groups. Raises `Unsupported` without the idle class, which distinguishes the innocent from the
        guilty.
        """
        site.make_plant("service", *(f"batch-{number}" for number in range(SUSPECTS)))
        gap = site.cgroups.knobs.supported(Knob.CPU_IDLE)
        if gap is not None:
            raise Unsupported("the culprit experiment", f"the idle class of groups: {gap.needs}")

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm once, with guilty group, phases and arrivals drawn from the seed."""
        random = Random(seed)
        guilty = random.choice(batch_groups())
        start_us = now_us() + _LEAD_US
        trouble_us = start_us + round(self.calm_s * 1e6)
        end_us = trouble_us + round(self.trouble_s * 1e6)
        paths = {site.cgroups.path(name): name for name in (_SERVICE, *batch_groups())}
        service, *batch = paths
        knobs = site.cgroups.knobs
        quota = KnobTarget(service, Knob.CPU_MAX)
        before = knobs.raw(quota)
        for group in batch:
            knobs.write(KnobTarget(group, Knob.CPU_IDLE), "1")
        if arm == OWN_QUOTA:
            knobs.write(quota, AMPLE)
        windows = site.scratch / f"windows-{arm}-{seed}.jsonl"
        windows.unlink(missing_ok=True)
        growth = ("--grow-at-us", str(trouble_us), "--growth", str(GROWTH)) if arm == OWN_LOAD else ()
        children = [
            start_service(site, start_us, end_us, seed, str(windows), growth),
            *start_batch(site, start_us, end_us, random),
        ]
        curve: list[list[float | None]] = []
        try:
            with CulpritWatch(detect(), service, batch, OBJECTIVE_US, WindowFile(windows)) as watch:
                at_us, began = start_us, False
                while at_us < end_us:
                    site.wait_until(at_us)
                    if not began and at_us >= trouble_us:
                        began = True
                        if arm == NEIGHBOUR:
                            knobs.write(KnobTarget(site.cgroups.path(guilty), Knob.CPU_IDLE), "0")
                            knobs.write(KnobTarget(site.cgroups.path(guilty), Knob.CPU_WEIGHT), WEIGHT)
                        elif arm == OWN_QUOTA:
                            knobs.write(quota, QUOTA)
                    state = watch.sample(ask=began)
                    if state is not None:
                        health = state.pods[0].health
                        curve.append([(now_us() - trouble_us) / 1e6, None if health is None else health.p99_us / 1e3])
                    at_us += STEP_US
                answers = {
                    name: {
                        "named": paths.get(method.named or ""),
                        "after_s": None if method.named_us is None else (method.named_us - trouble_us) / 1e6,
                        "causes": method.causes,
                        "reason": method.reason or (method.last.reason.text if method.last else ""),
                    }
                    for name, method in watch.methods.items()
                }
                why_no_probe = watch.why_no_probe
        finally:
            knobs.restore(quota, before)
        site.stop(*children, kill=True)
        return {
            "guilty": guilty if arm == NEIGHBOUR else None,
            "answers": answers,
            "why_no_probe": why_no_probe,
            "p99_ms": {
                "calm": _middle([p99 for at, p99 in curve if at is not None and at <= 0]),
                "trouble": _middle([p99 for at, p99 in curve if at is not None and at > 1]),
            },
            "curve": curve,
        }

    def disturbed(self, record: Record) -> str:
        """Never disturbed by its own measure."""
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Discards none: a round in which no group was named is a result."""
        return {}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """How often the guilty group was the first one named, and how often a group was named where the service was
        its own cause.
        """
        found: dict[str, dict[str, object]] = {}
        rows, checks, curves = [], [], []
        own = [round_.record(arm) for round_ in rounds for arm in (OWN_LOAD, OWN_QUOTA)]
        guilty = [round_.record(NEIGHBOUR) for round_ in rounds]
        for name in METHODS:
            answers = [record["answers"][name] for record in guilty]
            right = sum(answer["named"] == record["guilty"] for answer, record in zip(answers, guilty, strict=True))
            none = sum(answer["named"] is None for answer in answers)
            wrong = [record for record in own if record["answers"][name]["named"] is not None]
            soon = [
                answer["after_s"]
                for answer, record in zip(answers, guilty, strict=True)
                if answer["named"] == record["guilty"]
            ]
            share = right / len(guilty)
            found[name] = {
                "guilty_named_first": right,
                "nobody_named": none,
                "rounds": len(guilty),
                "median_s": round(middle(soon).value, 2) if soon else None,
                "innocent_named": len(wrong),
                "own_rounds": len(own),
                "causes": {arm: _causes(rounds, arm, name) for arm in self.arms},
            }
            rows.append(
                (
                    name,
                    f"{right} of {len(guilty)}",
                    str(none),
                    f"{len(wrong)} of {len(own)}",
                    f"{middle(soon).value:.1f}" if soon else "–",
                )
            )
            curves.append(
                Curve(
                    name,
                    list(range(len(answers))),
                    [entry["after_s"] for entry in answers],
                    _COLOURS[name],
                    is_points=True,
                )
            )
            if name == ALL:
                checks.append(FigureCheck("guilty group named first of four", round(share, 4), LINE, at_least=True))
                checks.append(
                    FigureCheck("groups named in rounds of own load or own quota", len(wrong), 0, at_least=False)
                )
        figures: dict[str, object] = {
            "methods": found,
            "p99_ms": {
                arm: {
                    part: _middle([round_.record(arm)["p99_ms"][part] for round_ in rounds])
                    for part in ("calm", "trouble")
                }
                for arm in self.arms
            },
        }
        notes = [
            f"The service has the objective {OBJECTIVE_US / 1000:g} ms and 15 % of a core; each batch group works "
            f"{WORK_MS} ms every {PERIOD_MS / 1000:g} s, in the idle class. "
            f"From the trouble on, one group has a weight of {WEIGHT} instead of the idle class, or requests are "
            f"{GROWTH:g} times as frequent, or the service's quota is {QUOTA}.",
        ]
        why = next((record["why_no_probe"] for record in guilty if record["why_no_probe"]), "")
        if why:
            notes.append(f"Without blame by eBPF: {why}.")
        columns = (
            "signals",
            "guilty named first",
            "nobody named",
            "innocent named (own causes)",
            "seconds to the name",
        )
        pictures = (
            Picture("Seconds until the guilty group was named", "round", "seconds", [("", curves)]),
            *(_course(arm, rounds[-1].record(arm)) for arm in self.arms),
        )
        return ExperimentJudgement(figures, checks, columns, rows, notes, pictures)


def batch_groups() -> list[str]:
    """The names of the batch groups."""
    return [in_plant(f"batch-{number}") for number in range(SUSPECTS)]


def start_service(
    site: Site, start_us: int, end_us: int, seed: int, windows: str, growth: Sequence[str]
) -> SiteProcess:
    """Start the service, which writes its latency windows to a file."""
    return site.start_python(
        _SERVICE,
        "cotenant_lab.experiments.loads.windowed_service",
        *("--start-us", str(start_us), "--seconds", str((end_us - start_us) / 1e6 + 1)),
        *("--gap-ms", str(GAP_MS), "--work-ms", str(REQUEST_MS), "--seed", str(seed)),
        *("--windows", windows, "--window-ms", str(STEP_US // 1000), "--objective-us", str(OBJECTIVE_US)),
        *growth,
    )


def start_batch(site: Site, start_us: int, end_us: int, random: Random) -> Iterator[SiteProcess]:
    """Start the batch groups\' work, each at a phase of its own."""
    phases = [PERIOD_MS * place // SUSPECTS for place in range(SUSPECTS)]
    random.shuffle(phases)
    for batch_group, phase_ms in zip(batch_groups(), phases, strict=True):
        yield site.start_python(
            batch_group,
            "cotenant_lab.experiments.loads.phased_batch",
            *("--start-us", str(start_us), "--seconds", str((end_us - start_us) / 1e6 + 1)),
            *("--period-ms", str(PERIOD_MS), "--phase-ms", str(phase_ms), "--work-ms", str(WORK_MS)),
            *("--seed", str(random.randrange(1 << 30))),
        )


def _causes(rounds: Sequence[ExperimentRound], arm: str, name: str) -> dict[str, int]:
    """Samples in trouble by the cause that was found, over all rounds."""
    total: Counter[str] = Counter()
    for round_ in rounds:
        total.update(round_.record(arm)["answers"][name]["causes"])
    return dict(total)


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(middle(known).value, 3) if known else None


def _course(arm: str, record: Record) -> Picture:
    points = json.loads(json.dumps(record["curve"]))
    curve = Curve("p99 as reported, ms", [at for at, _ in points], [p99 for _, p99 in points], OURS)
    return Picture(
        f"The last round of {arm}; the trouble begins at 0", "seconds", "", [(record["guilty"] or "", [curve])]
    )
