"""`recovery`: the real agent's ladder on real groups: is the guilty group limited, does the service recover, and how
soon?

Naming a cause proves nothing about the action. The agent runs with the policy `recovery` and without the guard. A
service with an objective runs beside four batch groups of the kernel's idle class; then one of them, drawn each round,
starts a hog with ten times the service's weight. The service reports its latency every half second, as it would
anywhere. The agent names, limits and proves, releases after a short lease, finds the trouble back and limits again; the
experiment reads its story and its knobs.
Limits: one core; the groups have no common best-effort group, so the ladder begins with the cap.

Source: pass line of 20 s from the culprit's arrival to the recovery: docs/guide/recovery.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from cotenant.model.errors import Permanent, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.pages.figures import OURS
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.measures.statistics import middle
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site import agent_process
from cotenant_lab.experiments.site.agent_process import SiteAgent
from cotenant_lab.experiments.site.site import Site, in_plant, now_us
from cotenant_lab.experiments.studies.culprit import (
    OBJECTIVE_US,
    STEP_US,
    SUSPECTS,
    WEIGHT,
    batch_groups,
    start_batch,
    start_service,
)
from cotenant_lab.experiments.studies.culprit_watch import WindowFile

ARM = "regulated"
RIGHT_LINE = 0.9
RECOVERED_LINE_S = 20.0
_SERVICE = in_plant("service")
_HOG_MS, _HOG_PERIOD_MS = 1950, 2000
_LEASE_S = 8  # short, so that what follows its end is within the round
_LEAD_US = 400_000
_OFF = ("best_effort_cpu", "own_cpus", "batch_resources", "burst")
_POLICIES = {**dict.fromkeys(_OFF, False), "recovery": {"lease_us": _LEASE_S * 1_000_000}}


@dataclass(slots=True)
class Recovery:
    """The experiment: `calm_s` without the hog, then `trouble_s` with it."""

    calm_s: float = 12.0
    trouble_s: float = 26.0
    name: str = "recovery"
    title: str = "From a burning objective to a proven recovery"
    arms: Sequence[str] = (ARM,)

    @property
    def block_s(self) -> float:
        """About how long a round takes."""
        return self.calm_s + self.trouble_s + 5.0

    def prepare(self, site: Site) -> None:
        """Create the groups. Raises `Unsupported` without the idle class."""
        site.make_plant("service", *(f"batch-{number}" for number in range(SUSPECTS)))
        gap = site.cgroups.knobs.supported(Knob.CPU_IDLE)
        if gap is not None:
            raise Unsupported("the recovery experiment", f"the idle class of groups: {gap.needs}")

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One round with the guilty group, phases and arrivals drawn from the seed."""
        random = Random(seed)
        guilty = random.choice(batch_groups())
        knobs = site.cgroups.knobs
        for group in batch_groups():
            knobs.write(KnobTarget(site.cgroups.path(group), Knob.CPU_IDLE), "1")
        agent = agent_process.start(
            site, {_SERVICE: OBJECTIVE_US / 1000}, batch_groups(), {"period_ms": 500, "policies": _POLICIES}
        )
        start_us = now_us() + _LEAD_US
        trouble_us = start_us + round(self.calm_s * 1e6)
        end_us = trouble_us + round(self.trouble_s * 1e6)
        windows = site.scratch / f"windows-{seed}.jsonl"
        windows.unlink(missing_ok=True)
        children = [
            start_service(site, start_us, end_us, seed, str(windows), ()),
            *start_batch(site, start_us, end_us, random),
        ]
        hog = site.start_python(
            guilty,
            "cotenant_lab.experiments.loads.phased_batch",
            *("--start-us", str(trouble_us), "--seconds", str(self.trouble_s + 1), "--phase-ms", "0"),
            *("--period-ms", str(_HOG_PERIOD_MS), "--work-ms", str(_HOG_MS), "--seed", str(seed)),
        )
        latency = WindowFile(windows)
        curve, capped = self._watch(site, agent, latency, start_us, trouble_us, end_us, guilty)
        record = self._record(agent, guilty, capped, trouble_us, curve)
        agent.stop()
        site.stop(*children, hog, kill=True)
        return record

    def _watch(
        self,
        site: Site,
        agent: SiteAgent,
        latency: WindowFile,
        start_us: int,
        trouble_us: int,
        end_us: int,
        guilty: str,
    ) -> tuple[list[list[float | None]], dict[str, float]]:
        """Report the latency, and note when each batch group was first limited; in seconds since the trouble."""
        curve: list[list[float | None]] = []
        capped: dict[str, float] = {}
        last_end_us, began, at_us = 0, False, start_us
        while at_us < end_us:
            site.wait_until(at_us)
            now = now_us()
            if not began and at_us >= trouble_us:
                began = True
                target = site.cgroups.path(guilty)
                site.cgroups.knobs.write(KnobTarget(target, Knob.CPU_IDLE), "0")
                site.cgroups.knobs.write(KnobTarget(target, Knob.CPU_WEIGHT), WEIGHT)
            health = latency.health(now)
            if health is not None and now - health.age_us != last_end_us:
                last_end_us = now - health.age_us
                agent.client.post(
                    "/v1/latency",
                    {
                        "workload": agent_process.pod_name(_SERVICE),
                        "window_s": health.window_us / 1e6,
                        "requests": health.requests,
                        "p99_us": health.p99_us,
                        "over_objective": health.over_objective,
                        "age_s": health.age_us / 1e6,
                    },
                )
                curve.append([(last_end_us - trouble_us) / 1e6, health.p99_us / 1e3])
            for group in batch_groups():
                if group not in capped and _is_limited(site, group):
                    capped[group] = (now - trouble_us) / 1e6
            at_us += STEP_US
        return curve, capped

    def _record(
        self,
        agent: SiteAgent,
        guilty: str,
        capped: dict[str, float],
        trouble_us: int,
        curve: list[list[float | None]],
    ) -> JsonObject:
        story = agent.client.get("/v1/explain", service=agent_process.pod_name(_SERVICE))
        incidents = story["incidents"]
        named = next((incident for incident in reversed(incidents) if incident["culprit"]), None)
        recovered_s = None
        if named is not None and named["recovered_after_us"] is not None:
            recovered_s = (named["opened_us"] + named["recovered_after_us"] - trouble_us) / 1e6
        return {
            "guilty": guilty,
            "culprit": None if named is None else f"plant/{named['culprit'].partition('/')[2]}",
            "capped": capped,
            "recovered_s": recovered_s,
            "proofs": [] if named is None else named["proofs"],
            "proven": named is not None and any(_is_complete(proof) for proof in named["proofs"]),
            "stages": [event["stage"] for incident in reversed(incidents) for event in incident["events"]],
            "story": story["text"],
            "p99_ms": {
                "calm": _middle([p99 for at, p99 in curve if at is not None and at <= 0]),
                "before": _middle(
                    [p99 for at, p99 in curve if at is not None and 1 < at <= min(capped.values(), default=1e9)]
                ),
                "after": _middle(
                    [
                        p99
                        for at, p99 in curve
                        if at is not None and recovered_s and recovered_s < at <= recovered_s + _LEASE_S
                    ]
                ),
            },
            "curve": curve,
        }

    def disturbed(self, record: Record) -> str:
        """Never disturbed by its own measure."""
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Discards none: a service that did not recover is a result."""
        return {}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """How often the guilty group, and only it, was limited, and the time from its arrival to the recovery."""
        records = [round_.record(ARM) for round_ in rounds]
        right = sum(record["culprit"] == record["guilty"] for record in records)
        innocent = sum(any(group != record["guilty"] for group in record["capped"]) for record in records)
        recovered = [record["recovered_s"] for record in records if record["recovered_s"] is not None]
        acted = [record["capped"][record["guilty"]] for record in records if record["guilty"] in record["capped"]]
        soon = sum(entry <= RECOVERED_LINE_S for entry in recovered)
        parts = {part: _middle([record["p99_ms"][part] for record in records]) for part in ("calm", "before", "after")}
        checks = [
            FigureCheck("guilty group named", round(right / len(records), 4), RIGHT_LINE, at_least=True),
            FigureCheck("rounds in which another group was limited", innocent, 0, at_least=False),
            FigureCheck(
                "rounds with the level before, under and after a limit",
                sum(entry["proven"] for entry in records) / len(records),
                RIGHT_LINE,
                at_least=True,
            ),
            FigureCheck(
                f"recovered within {RECOVERED_LINE_S:g} s", round(soon / len(records), 4), RIGHT_LINE, at_least=True
            ),
        ]
        figures: dict[str, object] = {
            "rounds_right": right,
            "rounds": len(records),
            "innocent": innocent,
            "acted_s": round(middle(acted).value, 2) if acted else None,
            "recovered_s": round(middle(recovered).value, 2) if recovered else None,
            "p99_ms": parts,
        }
        row = (
            f"{right} of {len(records)}",
            str(innocent),
            f"{middle(acted).value:.1f}" if acted else "–",
            f"{middle(recovered).value:.1f}" if recovered else "–",
            ", ".join("?" if value is None else f"{value:.1f}" for value in parts.values()),
        )
        columns = (
            "guilty named",
            "others limited",
            "s to the first limit",
            "s to the recovery",
            "p99 calm, before, after (ms)",
        )
        notes = [
            f"Seconds since the hog's arrival, medians. The service has the objective {OBJECTIVE_US / 1000:g} ms; the "
            "agent runs the policy recovery and not the guard.",
        ]
        return ExperimentJudgement(figures, checks, columns, [row], notes, (_course(records[-1]),))


def _is_complete(proof: Mapping[str, object]) -> bool:
    return proof["during"] is not None and proof["after"] is not None


def _is_limited(site: Site, group: str) -> bool:
    """Whether a batch group has a quota, which only the agent sets."""
    return not site.cgroups.knobs.read(KnobTarget(site.cgroups.path(group), Knob.CPU_MAX)).startswith("max")


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(middle(known).value, 3) if known else None


def _course(record: Record) -> Picture:
    points = record["curve"]
    if not points:
        raise Permanent("the service reported no latency")
    curve = Curve("p99 as reported, ms", [at for at, _ in points], [p99 for _, p99 in points], OURS)
    return Picture("The last round; the hog begins at 0", "seconds", "", [(record["guilty"], [curve])])
