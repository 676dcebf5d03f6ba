"""`loop` and `llm`: a real application beside a batch hog: its objective burns, the cause is found and held, and it
recovers, from spans alone, or from a model server's metrics.

Each part of the loop is measured by itself elsewhere; here nothing reports on itself and nothing is known beforehand.
An application (the ride service, site/ride.py; or a model server, site/model_server.py) under an open-loop load, what
it tells in `cotenant traces`, one objective of its frontend. In the regulated arm the agent gets the frontend's signal
from the trace process and has the policy `recovery`; the guard and its idle class are off, since with them the hog
hardly disturbs and no cause need be found. The hog, a batch group with ten times a service's weight, arrives after
`calm_s`. Another batch group that works a little is innocent. The threshold is set before the rounds, at `MARGIN` times
the service's p99 alone on this machine. Recovered is where the first `STEADY_S` begin in which the share of requests
over the threshold is within the budget.
What the plant leaves idle others may use, alone and where the hog is held; what they take while it is wanted is
measured in the unregulated arm, in which the hog wants all of it. So that others' work does not make the comparison
easy, a round counts only where the application alone keeps its objective and its usual p99.
Limits: the arm ends before the first lease of the action, so the later test without the limit is not in it; one core
for the application; what other work the machine does is in every arm.

Source: pass lines of the loop: 20 s from the hog's arrival, 1.3 times alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from cotenant.model.errors import CotenantError, Permanent
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.pages.figures import BOUND, OURS, rival
from cotenant_lab.experiments.harness import ExperimentJudgement, ExperimentRound, Record
from cotenant_lab.experiments.loads.ride_load import SLOT_US
from cotenant_lab.experiments.measures.histogram import Histogram
from cotenant_lab.experiments.measures.statistics import middle, ratio
from cotenant_lab.experiments.measures.windows import disturbed_alone
from cotenant_lab.experiments.outcome import Curve, FigureCheck, Picture
from cotenant_lab.experiments.site import agent_process
from cotenant_lab.experiments.site.agent_process import SiteAgent
from cotenant_lab.experiments.site.application import RunningApplication, SiteApplication, objective_of
from cotenant_lab.experiments.site.ride import RIDE
from cotenant_lab.experiments.site.site import GENERATOR, Site, SiteProcess, in_plant, now_us

ALONE, UNREGULATED, REGULATED = "alone", "unregulated", "regulated"
MARGIN = 1.5
BUDGET = 0.05  # the target is 95 %
STEADY_S = 10.0
RECOVERED_LINE_S, P99_LINE, NAMED_LINE, BURN_LINE = 20.0, 1.3, 0.9, 1.0
_HOG, _OTHER = in_plant("hog"), in_plant("backup")
_HOG_WEIGHT = "1000"
_BURN = "import hashlib\nwhile True: hashlib.sha256(bytes(100000))"
_LIGHT = "import hashlib, time\nwhile True:\n  hashlib.sha256(bytes(500000))\n  time.sleep(0.05)"
_OFF = ("best_effort_cpu", "own_cpus", "batch_resources", "burst")
_POLICIES = {**dict.fromkeys(_OFF, False), "recovery": True}
_DRAIN_US = 10_000_000  # more than the window of a replica's figures
_COLOURS = {ALONE: BOUND, UNREGULATED: rival(0), REGULATED: OURS}


@dataclass(slots=True)
class LoopStudy:
    """The experiment. Times in seconds; `steady_s` at the end of an arm is compared."""

    rate: float = 15.0
    calm_s: int = 12
    trouble_s: int = 40  # less than a lease of the policy
    steady_s: int = 12
    name: str = "loop"
    title: str = "From spans to a recovery: the ride service beside a batch hog"
    arms: Sequence[str] = (ALONE, UNREGULATED, REGULATED)
    threshold_ms: float = 0.0
    application: SiteApplication = RIDE
    _running: RunningApplication = field(default=RunningApplication(0, ""))

    @property
    def block_s(self) -> float:
        """About how long an arm takes."""
        return self.calm_s + self.trouble_s / 2 + self.steady_s + 4.0

    def prepare(self, site: Site) -> None:
        """Start the application, measure it alone, set the threshold, start the trace process."""
        self.application.check()
        site.make_plant("hog", "backup")
        site.cgroups.knobs.write(KnobTarget(site.cgroups.path(_HOG), Knob.CPU_WEIGHT), _HOG_WEIGHT)
        self._running = self.application.start(site)
        self._load(site, 6, 1, 1_000_000, lambda second, live: None)  # connections and caches
        alone = self._load(site, 15, 2, 1_000_000, lambda second, live: None)
        p99_us = _pooled(alone, 3.0, 15.0).quantile_us(0.99)
        if not p99_us:
            raise Permanent("the application answered nothing")
        self.threshold_ms = max(1.0, round(MARGIN * p99_us / 1000))
        self.application.start_traces(site, self._running, self.threshold_ms, f"{100 * (1 - BUDGET):g}")

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """One arm: latencies by half second, and what the trace process and the agent said each second."""
        agent = self._agent(site) if arm == REGULATED else None
        seconds = self.calm_s + {ALONE: self.steady_s, UNREGULATED: self.steady_s, REGULATED: self.trouble_s}[arm]
        hogs: list[SiteProcess] = []
        watched: list[JsonObject] = []
        offline_us: list[int] = []  # CPU time of the hog where the compared stretch begins, and at its end
        other = site.start(_OTHER, [sys.executable, "-c", _LIGHT], "backup")

        def hear(second: int, live: JsonMapping) -> None:
            if second == self.calm_s and arm != ALONE:
                hogs.extend(site.start(_HOG, [sys.executable, "-c", _BURN], f"hog-{number}") for number in range(4))
                if arm == UNREGULATED:
                    stretch.enter_context(site.measured())  # from here on the plant wants its whole core
            if second == seconds - self.steady_s:
                offline_us.append(site.cgroups.cpu_us(_HOG))
            watched.append({"second": second, **live, **self._looked(agent)})

        with ExitStack() as stretch:
            if arm != UNREGULATED:
                stretch.enter_context(site.measured(may_be_used_idle=True))
            slots = self._load(site, seconds, seed, round(self.threshold_ms * 1000), hear)
            offline_us.append(site.cgroups.cpu_us(_HOG))
        story: JsonObject = {}
        if agent is not None:
            story = {"agent": agent.record(), "story": self._story(agent)}
        status = objective_of(self._running, self.application.objective)
        site.stop(other, *hogs, kill=True)
        if hogs:
            site.wait_until(now_us() + _DRAIN_US)
        if agent is not None:
            agent.stop()
        return {
            "slots": [[index, found.pairs()] for index, found in slots],
            "watched": watched,
            "status": status,
            "threshold_ms": self.threshold_ms,
            "offline_us": offline_us[-1] - offline_us[0],
            **story,
        }

    def disturbed(self, record: Record) -> str:
        """Blocks are judged by the plant's core only."""
        return ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Rounds in which the application alone already misses its objective, or is far slower than usual."""
        tails_us = {round_.number: self._tail(round_.record(ALONE), ALONE) for round_ in rounds}
        found = dict(disturbed_alone(tails_us, MARGIN))
        for round_ in rounds:
            alone = _slots(round_.record(ALONE))
            share = _over(_pooled(alone, self.calm_s, self.calm_s + self.steady_s), self.threshold_ms)
            if share > BUDGET:
                found[round_.number] = f"alone, {share:.0%} of the requests missed the objective"
        return found

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """Burn, cause, recovery and the regulated tail."""
        tails = {arm: [self._tail(round_.record(arm), arm) for round_ in rounds] for arm in self.arms}
        burns = [_worst_burn(round_.record(UNREGULATED), self.calm_s) for round_ in rounds]
        named = [_culprit(round_.record(REGULATED)) for round_ in rounds]
        took = [self._recovered_s(round_.record(REGULATED)) for round_ in rounds]
        innocent = [_innocent(round_.record(REGULATED)) for round_ in rounds]
        known = [value for value in took if value is not None]
        right = sum(name == agent_process.pod_name(_HOG) for name in named) / len(rounds)
        against = ratio(tails[REGULATED], tails[ALONE])
        unregulated = ratio(tails[UNREGULATED], tails[ALONE])
        slowest = max(known) if len(known) == len(rounds) else None
        kept = [_offline_share(round_) for round_ in rounds]
        checks = [
            FigureCheck(
                "burn rate under the hog, unregulated, of the trace process",
                median(burns),
                BURN_LINE,
                True,
                arms=(UNREGULATED,),
            ),
            FigureCheck("hog named as the cause, share of rounds", right, NAMED_LINE, True, arms=(REGULATED,)),
            FigureCheck("innocent batch group limited, rounds", float(sum(innocent)), 0.0, arms=(REGULATED,)),
            FigureCheck(
                "hog's arrival to recovered, slowest round", slowest, RECOVERED_LINE_S, unit="s", arms=(REGULATED,)
            ),
            FigureCheck(
                "p99 regulated / alone",
                round(against.value, 3),
                P99_LINE,
                False,
                against.low,
                against.high,
                arms=(REGULATED, ALONE),
            ),
        ]
        figures: JsonObject = {
            "threshold_ms": median(round_.record(ALONE)["threshold_ms"] for round_ in rounds),
            "p99_ms": {arm: round(middle(tails[arm]).value / 1000, 2) for arm in self.arms},
            "p99_to_alone": {UNREGULATED: round(unregulated.value, 3), REGULATED: round(against.value, 3)},
            "burn_unregulated": burns,
            "burn_beside": {
                name: [_worst_burn(round_.record(UNREGULATED), self.calm_s, name) for round_ in rounds]
                for name in self.application.beside
            },
            "offline_share": kept,
            "named": named,
            "recovered_s": took,
            "last_action": [
                (round_.record(REGULATED)["status"].get("lastAction") or {}).get("action") for round_ in rounds
            ],
            "stories": [round_.record(REGULATED)["story"].get("text", []) for round_ in rounds],
        }
        rows = [
            (
                str(round_.number),
                *(f"{tails[arm][place] / 1000:.1f}" for arm in self.arms),
                f"{burns[place]:.1f}",
                *(f"{beside[place]:.1f}" for beside in figures["burn_beside"].values()),
                named[place] or "nothing",
                "never" if took[place] is None else f"{took[place]:.1f}",
                f"{kept[place]:.0%}",
            )
            for place, round_ in enumerate(rounds)
        ]
        beside = (f"burn {name.rpartition('/')[2]}" for name in self.application.beside)
        columns = ("round", *(f"p99 {arm} ms" for arm in self.arms), "burn", *beside, "named", "recovered s", "offline")
        notes = (
            f"{self.application.note}. {self.rate:g} requests a second, open loop; threshold {MARGIN:g} times p99 "
            f"alone, target {100 * (1 - BUDGET):g} %. Latency of the load counts from when a request was due. p99 is "
            f"of the last {self.steady_s} s of an arm. No service reports on itself to the agent. offline: the hog's "
            "CPU time in that stretch, regulated, of what it had unregulated.",
        )
        return ExperimentJudgement(
            figures, checks, columns, rows, notes, (self._picture(rounds[0]), self._burning(rounds[0]))
        )

    def _agent(self, site: Site) -> SiteAgent:
        services = {in_plant(name): None for name in self.application.services}
        settings = {"policies": _POLICIES, "traces": {"url": self._running.traces}}
        return agent_process.start(site, services=services, batch=(_HOG, _OTHER), settings=settings)

    def _load(
        self, site: Site, seconds: int, seed: int, objective_us: int, hear: Callable[[int, JsonMapping], None]
    ) -> list[tuple[int, Histogram]]:
        """Run the load; latencies by slot of the due time since its begin. `hear` gets each second's report."""
        generator = site.start_python(
            GENERATOR,
            "cotenant_lab.experiments.loads.ride_load",
            *("--port", str(self._running.port), "--rate", str(self.rate), "--seconds", str(seconds + 0.2)),
            *("--seed", str(seed), "--objective-us", str(objective_us), "--path", self.application.path),
            pipe=True,
        )
        for second, line in enumerate(generator.process.stdout or (), 1):
            report = json.loads(line)
            if "live" not in report:
                site.stop(generator)
                return [(index, Histogram.from_pairs(pairs)) for index, pairs in report["slots"]]
            hear(second, report["live"])
        generator.process.wait(10)
        raise Permanent(f"the load ended early: {generator.last_line()}")

    def _looked(self, agent: SiteAgent | None) -> dict[str, object]:
        """The worst replica by each objective, and the frontend as its agent sees it."""
        found: JsonObject = {"burn": self._burn(self.application.objective)}
        if self.application.beside:
            found["beside"] = {name: self._burn(name) for name in self.application.beside}
        if agent is not None:
            try:
                pods = agent.client.get("/v1/state")["pods"]
            except CotenantError:
                return found
            found["signals"] = next((pod["signals"] for pod in pods if pod["pod"] == self._frontend), [])
        return found

    def _burn(self, objective: str) -> float | None:
        burn = (objective_of(self._running, objective).get("worstReplica") or {}).get("burn")
        return None if burn is None else float(burn)

    def _story(self, agent: SiteAgent) -> dict[str, object]:
        try:
            return dict(agent.client.get("/v1/explain", service=self._frontend))
        except CotenantError as error:
            return {"text": [str(error)], "incidents": []}

    @property
    def _frontend(self) -> str:
        return agent_process.pod_name(in_plant(self.application.frontend))

    def _tail(self, record: Record, arm: str) -> float:
        end = self.calm_s + (self.trouble_s if arm == REGULATED else self.steady_s)
        return float(_pooled(_slots(record), end - self.steady_s, end).quantile_us(0.99) or 1)

    def _recovered_s(self, record: Record) -> float | None:
        """From the hog's arrival to the first `STEADY_S` that keep the objective."""
        over = {
            index * SLOT_US / 1e6: (found.total, found.above(round(self.threshold_ms * 1000)))
            for index, found in _slots(record)
        }
        return recovered_s(over, float(self.calm_s), BUDGET, STEADY_S)

    def _picture(self, first: ExperimentRound) -> Picture:
        curves = []
        for arm in self.arms:
            points = [
                (index * SLOT_US / 1e6, found.quantile_us(0.95) or 0) for index, found in _slots(first.record(arm))
            ]
            curves.append(Curve(arm, [x for x, _ in points], [y / 1000 for _, y in points], _COLOURS[arm]))
        return Picture(f"p95 by half second; the hog arrives at {self.calm_s} s", "s", "ms", (("first round", curves),))

    def _burning(self, first: ExperimentRound) -> Picture:
        """Above 1 the budget of the objective is used up before its time."""
        curves = []
        for arm in self.arms:
            watched = first.record(arm)["watched"]
            burns = [entry["burn"] for entry in watched]
            curves.append(Curve(arm, [float(entry["second"]) for entry in watched], burns, _COLOURS[arm]))
        return Picture("How fast the budget burns", "s", "times", (("first round", curves),))


def recovered_s(
    over: Mapping[float, tuple[int, int]], arrived_s: float, budget: float, steady_s: float
) -> float | None:
    """Seconds from `arrived_s` to the beginning of the first `steady_s` that begin without a miss and keep the
    objective.

    `over`: by the time of a slot, requests and those over the threshold; no more than `budget` of a stretch's requests
    may be over. None where that never comes.
    """
    times = sorted(time for time in over if time >= arrived_s)
    for time in times:
        if time + steady_s > times[-1] + (times[1] - times[0] if len(times) > 1 else 0.0):
            break
        stretch = [over[value] for value in times if time <= value < time + steady_s]
        requests, missed = (sum(entry[place] for entry in stretch) for place in (0, 1))
        if requests and not over[time][1] and missed <= budget * requests:
            return time - arrived_s
    return None


def _slots(record: Record) -> list[tuple[int, Histogram]]:
    return [(index, Histogram.from_pairs(pairs)) for index, pairs in record["slots"]]


def _pooled(slots: Sequence[tuple[int, Histogram]], from_s: float, to_s: float) -> Histogram:
    pooled = Histogram()
    for index, found in slots:
        if from_s <= index * SLOT_US / 1e6 < to_s:
            pooled.merge(found)
    return pooled


def _over(found: Histogram, threshold_ms: float) -> float:
    return found.above(round(threshold_ms * 1000)) / max(1, found.total)


def _worst_burn(record: Record, calm_s: int, beside: str = "") -> float:
    late = [entry for entry in record["watched"] if entry["second"] > calm_s]
    return max(((entry["beside"][beside] if beside else entry["burn"]) or 0.0 for entry in late), default=0.0)


def _offline_share(round_: ExperimentRound) -> float:
    """The hog's CPU time regulated, of what it had unregulated."""
    regulated, unregulated = (int(round_.record(arm)["offline_us"]) for arm in (REGULATED, UNREGULATED))
    return regulated / max(1, unregulated)


def _culprit(record: Record) -> str:
    named = [entry["culprit"] for entry in record["story"].get("incidents", ()) if entry.get("culprit")]
    return str(named[-1]) if named else ""


def _innocent(record: Record) -> bool:
    """Whether the policy `recovery` held a knob of the other batch group."""
    other = _OTHER.rpartition("/")[2]
    return any(
        entry["what"] == "held" and entry["policy"] == "recovery" and str(entry["group"]).endswith(f"/{other}")
        for entry in record["agent"]["decisions"]
    )
