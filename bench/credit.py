"""Does credit help an honest tenant beside a selfish one that declares twice what it uses?

Two tenants with equal guarantees submit the same jobs (Poisson arrivals, 1 to 6 cores in use, exponential durations of
10 minutes) to 160 cores. The selfish one requests twice the cores that its jobs use. The scheduling engine places them
with and without credit; accounts are booked every five minutes by the code of `cotenant credit serve`, with measured
use. A job misses its objective if it waits more than 10 minutes. Seeds 0 to 9 are reported, each seed with equal jobs
in both arms; seeds from 100 were used to choose the loads and the prices of unused borrowing and unreserved capacity.

    python -m bench.credit                  # seeds 0 to 9, a table
    python -m bench.credit --first 100      # other seeds

Limits: one node size, two tenants, no contention: a violation here is a late start, not a slow service. Waiting counts
jobs that started, and those that did not until the end.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from cotenant.engine.cluster import Cluster
from cotenant.engine.credit.accounts import Accounts
from cotenant.engine.framework.instructions import Bind, Evict, Instruction
from cotenant.engine.plugins.quotas.plugin import Quotas
from cotenant.engine.plugins.quotas.settings import QuotaSettings
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import HOSTNAME, Labels
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.groups.quota import NAME, Quota, QuotaObject
from cotenant.model.resources import Amounts
from cotenant.policy.credit.bounds import CreditRules
from cotenant.policy.credit.pricing import PeriodUse
from cotenant.policy.placement.profiles import profile

TENANTS = ("honest", "selfish")
NODES, CORES, GUARANTEE = 5, 32, 20
STEP_S, PERIOD_S, HOURS = 15, 300, 6
LATE_S = 600.0
MEAN_S = 600.0
RULES = CreditRules(half_life_s=4 * 3600, bound_milli=50_000)


@dataclass(frozen=True, slots=True)
class Job:
    """One job: `used` cores for `lasts_s` from its start; it requests `declared`."""

    name: str
    tenant: str
    at_s: float
    lasts_s: float
    used: int
    declared: int


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one tenant in one run."""

    wait_s: float  # mean
    late: float  # share of jobs that waited longer than `LATE_S`
    share: float  # of the cores requested by running jobs
    work: float  # core-hours used


def jobs_of(seed: int, load: float) -> list[Job]:
    """The jobs of a run. `load`: cores requested by both over the cores there are."""
    rng = np.random.default_rng(seed)
    per_s = load * NODES * CORES / (3.5 * 3.0 * MEAN_S)  # of each tenant: 3.5 cores, requested once and twice
    found: list[Job] = []
    for tenant in TENANTS:
        at_s = 0.0
        while True:
            at_s += float(rng.exponential(1.0 / per_s))
            if at_s >= HOURS * 3600:
                break
            used, lasts_s = int(rng.integers(1, 7)), float(rng.exponential(MEAN_S))
            declared = 2 * used if tenant == "selfish" else used
            found.append(Job(f"{tenant}-{len(found)}", tenant, at_s, lasts_s, used, declared))
    return sorted(found, key=lambda job: job.at_s)


class Run:
    """One run of the engine; `with_credit` books and considers standings."""

    def __init__(self, with_credit: bool) -> None:
        self.accounts = Accounts(RULES)
        self._with_credit = with_credit
        self._quotas = Quotas(QuotaSettings(credit=with_credit))
        self._cluster = Cluster(
            profile("least-allocated"), np.random.default_rng(0), plugins=PluginRegistry(quotas=self._quotas)
        )
        for i in range(NODES):
            room = Amounts.of({"cpu": CORES * 1000, "memory": 1 << 40, "pods": 500})
            self._cluster.node_seen(Node(f"n{i}", room, Labels.of({HOSTNAME: f"n{i}"})))
        self._pods: dict[str, ObservedPod] = {}
        self._jobs: dict[str, Job] = {}
        self._ends: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self.held = dict.fromkeys(TENANTS, 0.0)  # core-seconds requested by running jobs
        self.used = dict.fromkeys(TENANTS, 0.0)
        self.evictions = 0
        self._write()

    def simulate(self, jobs: list[Job]) -> None:
        """From the first to the last arrival."""
        coming = iter(jobs)
        job = next(coming, None)
        for step in range(HOURS * 3600 // STEP_S):
            now_s = float(step * STEP_S)
            for uid in [uid for uid, end_s in self._ends.items() if end_s <= now_s]:
                self._end(uid, now_s)
            while job is not None and job.at_s <= now_s:
                self._submit(job, now_s)
                job = next(coming, None)
            for _ in range(20):
                for instruction in self._cluster.decide(now_s):
                    self._carry_out(instruction, now_s)
                if self._cluster.next_s() > now_s:
                    break
            running = [self._jobs[uid] for uid in self._ends]
            for one in running:
                self.held[one.tenant] += one.declared * STEP_S
                self.used[one.tenant] += one.used * STEP_S
            if self._with_credit and step and step * STEP_S % PERIOD_S == 0:
                self._book(step * STEP_S // PERIOD_S, running)

    def _book(self, period: int, running: list[Job]) -> None:
        uses = [
            PeriodUse(
                name,
                GUARANTEE * 1000,
                1000 * sum(job.declared for job in running if job.tenant == name),
                1000 * sum(job.used for job in running if job.tenant == name),
            )
            for name in TENANTS
        ]
        posting = self.accounts.period_ended(period, period * PERIOD_S * 1000, PERIOD_S * 1000, uses)
        assert posting is not None
        self.accounts.committed(posting)
        self._write()

    def _write(self) -> None:
        for name in TENANTS:
            quota = Quota(name, Amounts.of({"cpu": NODES * CORES * 1000}), Amounts.of({"cpu": GUARANTEE * 1000}))
            standing = self.accounts.standing_of(name)
            self._quotas.quota_seen(QuotaObject(f"q/{name}", f"u-{name}", quota, standing=standing), 0.0)

    def _submit(self, job: Job, now_s: float) -> None:
        requests = Amounts.of({"cpu": job.declared * 1000})
        pod = Pod(job.name, "work", requests, labels=Labels.of({NAME: job.tenant}))
        seen = ObservedPod(pod, job.name, "cotenant", created_s=job.at_s)
        self._pods[job.name], self._jobs[job.name] = seen, job
        self._cluster.pod_seen(seen, now_s)

    def _carry_out(self, instruction: Instruction, now_s: float) -> None:
        if isinstance(instruction, Bind):
            self._cluster.sending(instruction.uid, now_s)
            self._cluster.bound(instruction.uid, now_s)
            self._pods[instruction.uid] = replace(self._pods[instruction.uid], node=instruction.node, started_s=now_s)
            self._cluster.pod_seen(self._pods[instruction.uid], now_s)
            self.started[instruction.uid] = now_s
            self._ends[instruction.uid] = now_s + self._jobs[instruction.uid].lasts_s
        elif isinstance(instruction, Evict):  # it starts again from the beginning, under a new name
            self.evictions += 1
            job = self._jobs[instruction.victim.uid]
            self._end(instruction.victim.uid, now_s)
            self._submit(replace(job, name=job.name + "+", at_s=now_s), now_s)

    def _end(self, uid: str, now_s: float) -> None:
        del self._ends[uid]
        del self._pods[uid]
        self._cluster.pod_gone(uid, now_s)

    def figures(self, jobs: list[Job]) -> dict[str, Figures]:
        """Of each tenant; a job that did not start has waited until the end."""
        found = {}
        for name in TENANTS:
            waits = [self.started.get(job.name, HOURS * 3600.0) - job.at_s for job in jobs if job.tenant == name]
            found[name] = Figures(
                float(np.mean(waits)),
                float(np.mean([wait > LATE_S for wait in waits])),
                self.held[name] / max(1.0, sum(self.held.values())),
                self.used[name] / 3600.0,
            )
        return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--load", type=float, default=1.05)
    given = parser.parse_args()
    kept: dict[tuple[bool, str], list[Figures]] = {}
    for seed in range(given.first, given.first + given.seeds):
        jobs = jobs_of(seed, given.load)
        for with_credit in (False, True):
            run = Run(with_credit)
            run.simulate(jobs)
            for name, figures in run.figures(jobs).items():
                kept.setdefault((with_credit, name), []).append(figures)
    print(f"load {given.load:g}, seeds {given.first} to {given.first + given.seeds - 1}; mean ± 95 % interval")
    print("tenant    credit  mean wait, s      late, %         share, %        core-hours used")
    scale = {"wait_s": 1.0, "late": 100.0, "share": 100.0, "work": 1.0}
    for name in TENANTS:
        for with_credit in (False, True):
            cells = [_cell([getattr(f, key) * by for f in kept[with_credit, name]]) for key, by in scale.items()]
            print(f"{name:9} {'on' if with_credit else 'off':6}  " + "  ".join(f"{cell:14}" for cell in cells))
        pairs = list(zip(kept[True, name], kept[False, name], strict=True))
        cells = [_cell([(getattr(a, key) - getattr(b, key)) * by for a, b in pairs]) for key, by in scale.items()]
        print(f"{name:9} {'change':6}  " + "  ".join(f"{cell:14}" for cell in cells))


def _cell(values: list[float]) -> str:
    half = 2.262 * float(np.std(values, ddof=1)) / sqrt(len(values)) if len(values) > 1 else 0.0  # t, nine degrees
    return f"{np.mean(values):.1f} ± {half:.1f}"


if __name__ == "__main__":
    main()
