"""What may be lent against the risk that is kept: the peak policy, upstream's formula, and the published predictors, on
real usage.

Two sets of machines. `containers`: 4,040 machines of Alibaba's 2018 contest (Tianchi B) with the containers that it
deploys on them, 98 samples of one day, each container with its own curve; its request is taken to be the highest value
of the curve. `machines`: eleven machines of the Alibaba 2018 trace, eight days, samples about a minute apart, of which
only the total is known. All use counts as prod use. At each sample a policy knows the samples up to it and decides the
amount that stands until the next one; a node-hour is broken if at any of its samples prod + lent exceeded the capacity,
so all that is lent is assumed to be used. The first three hours of each machine are not counted.

Settings are chosen on the machines whose name hashes to an even number, and reported on the others. `risk`: broken
node-hours, percent; `lent`: mean share of the capacity, percent; `writes`: of a node's amounts, per node and day.
Upstream writes whenever an amount moves by more than 10 percent, and at every sample later than 300 s after the last
write. The Google 2019 sample has the mean of one cell only, which is no machine: it is not used.

Predictors: N-sigma and percentile over a window, of the machine's total, and the largest of both (Bashir et al., "Take
it to the limit", EuroSys 2021, section 4), refreshed at each sample.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.machine import show
from cotenant.model.arrays import Float
from cotenant.model.cluster.qos import PriorityClass
from cotenant.policy.overcommit.batch import BATCH_CPU
from cotenant.policy.overcommit.hysteresis import HysteresisBand, to_write
from cotenant.policy.overcommit.peak import (
    MeasuredPodUse,
    PeakSettings,
    calibrated,
    new_history,
    new_pool,
    observe,
    peak_amount,
)
from cotenant_lab.traces.folder import table_file
from cotenant_lab.traces.read import read_table

TRACES = Path(os.environ.get("COTENANT_TRACES") or Path(__file__).parents[2] / "shared" / "traces")
WARM_S = 3 * 3600.0
STEP_S = 900.0  # between two samples of a container
CAPACITY = 1_000_000  # of every machine, in millionths: amounts are integers
SETS = ("containers", "machines")


class Machine(NamedTuple):
    """One machine: times in seconds, and use in shares of the capacity by pod (`[pods, samples]`); its pods'
    requests.
    """

    name: str
    times: Float
    use: Float
    requests: Float


class Figures(NamedTuple):
    """What a policy did on a set."""

    lent_pct: float
    risk_pct: float
    writes: float


def is_reported(name: str) -> bool:
    """Whether a machine belongs to the half that is reported, by a hash of its name."""
    return sha256(name.encode()).digest()[0] % 2 == 1


def machines(which: str, limit: int = 0) -> list[Machine]:
    """A set; `limit` takes the first so many of each half."""
    found = list(_containers() if which == "containers" else _machines())
    if limit:
        found = [
            machine
            for half in (True, False)
            for machine in [one for one in found if is_reported(one.name) == half][:limit]
        ]
    return found


def _table(folder: str, name: str, form: str, table: str) -> Any:
    path = table_file(TRACES / folder, name)
    if path is None:
        raise SystemExit(f"no table {name} in {folder} of COTENANT_TRACES")
    return read_table(form, table, path)[0]


def _containers() -> Iterator[Machine]:
    folder = "alibaba2018-tianchi-containers"
    curves = {
        row["app"]: np.asarray(row["cpu_98"], dtype=float)
        for row in _table(folder, "app_resources", "tianchi", "apps").iter_rows(named=True)
    }
    cores = {
        row["machine"]: row["cpu"]
        for row in _table(folder, "machine_resources", "tianchi", "machines").iter_rows(named=True)
    }
    placed: dict[str, list[Float]] = {}
    for row in _table(folder, "instance_deploy", "tianchi", "containers").iter_rows(named=True):
        if row["initial_machine"]:
            placed.setdefault(row["initial_machine"], []).append(curves[row["app"]])
    for name, own in sorted(placed.items()):
        use = np.array(own) / cores[name]
        yield Machine(name, np.arange(use.shape[1]) * STEP_S, use, use.max(axis=1))


def _machines() -> Iterator[Machine]:
    table = _table("alibaba2018-machines", "machine_usage_11_machines", "alibaba2018", "machine_usage")
    series: dict[str, list[tuple[float, float]]] = {}
    for row in table.iter_rows(named=True):
        if row["cpu_util_percent"] is not None:
            series.setdefault(row["machine_id"], []).append((float(row["time_stamp"]), row["cpu_util_percent"] / 100))
    for name, samples in sorted(series.items()):
        own = np.array(sorted(dict(samples).items()))
        if own[:, 1].max() > 0.2:  # m_1933 is idle: nothing there tells policies apart
            yield Machine(name, own[:, 0], own[None, :, 1], own[None, :, 1].max(axis=1))


# ---- policies: the amount that stands after each sample


@dataclass(frozen=True, slots=True)
class Formula:
    """capacity x reclaim - use, written by upstream's rule."""

    reclaim: float = 0.60
    threshold: float = 0.10
    max_s: float = 300.0

    def stands(self, all_: Sequence[Machine]) -> Iterator[tuple[Machine, Float, int]]:
        """Amounts and writes of each machine."""
        for machine in all_:
            wanted = np.maximum(0.0, self.reclaim - machine.use.sum(axis=0))
            yield machine, *_written(wanted, machine.times, self.threshold, self.max_s)


@dataclass(frozen=True, slots=True)
class Window:
    """capacity - the predicted peak, of the last `window_s`: mean + N sigma, or a percentile; both = the larger
    peak.
    """

    sigmas: float = 0.0
    share: float = 0.0
    window_s: float = 6 * 3600.0

    def stands(self, all_: Sequence[Machine]) -> Iterator[tuple[Machine, Float, int]]:
        """Amounts and writes of each machine, by upstream's rule of writing."""
        for machine in all_:
            total = machine.use.sum(axis=0)
            first = np.searchsorted(machine.times, machine.times - self.window_s)
            wanted = np.empty(len(total))
            for i, at in enumerate(first):
                seen = total[at : i + 1]
                peak = 0.0
                if self.sigmas:
                    peak = float(seen.mean() + self.sigmas * seen.std())
                if self.share:
                    peak = max(peak, float(np.quantile(seen, self.share)))
                wanted[i] = max(0.0, 1.0 - peak)
            yield machine, *_written(wanted, machine.times, 0.10, 300.0)


@dataclass(frozen=True, slots=True)
class Peak:
    """Ours: the same policy objects that the manager runs, calibrated over all machines as time goes on."""

    settings: PeakSettings = field(default_factory=PeakSettings)
    band: HysteresisBand = field(default_factory=HysteresisBand)
    feedback: bool = True

    def stands(self, all_: Sequence[Machine]) -> Iterator[tuple[Machine, Float, int]]:
        """Amounts and writes; machines advance together, an hour at a time, because they share what they learn."""
        gap_s = float(np.median(np.concatenate([np.diff(entry.times) for entry in all_])))
        pool = new_pool(self.settings, 3600.0 / gap_s)
        histories = [new_history(self.settings) for _ in all_]
        amounts = [np.zeros(len(entry.times)) for entry in all_]
        present: list[int | None] = [None] * len(all_)
        writes = [0] * len(all_)
        units = [np.rint(entry.use * CAPACITY).astype(np.int64) for entry in all_]
        requests = [np.rint(entry.requests * CAPACITY).astype(np.int64) for entry in all_]
        last_hour = int(max(entry.times[-1] for entry in all_) // 3600)
        for hour in range(last_hour + 1):
            hours = broken = 0
            for m, machine in enumerate(all_):
                low, high = np.searchsorted(machine.times, (hour * 3600.0, (hour + 1) * 3600.0))
                exceeded = False
                for i in range(low, high):
                    own = {
                        str(p): MeasuredPodUse(PriorityClass.PROD, int(requests[m][p]), int(units[m][p, i]))
                        for p in range(len(units[m]))
                    }
                    if i and sum(pod.use or 0 for pod in own.values()) + (present[m] or 0) > CAPACITY:
                        exceeded = True
                    histories[m], pool = observe(
                        histories[m], pool, own, CAPACITY, self.settings, float(machine.times[i])
                    )
                    amount = peak_amount(BATCH_CPU, histories[m], pool, own, CAPACITY, 0, self.settings)
                    held = to_write(amount.value, present[m], CAPACITY, self.band)
                    writes[m] += held != present[m] and machine.times[i] - machine.times[0] >= WARM_S
                    present[m] = held
                    amounts[m][i] = held / CAPACITY
                if high > low:
                    hours += 1
                    broken += exceeded
            if self.feedback:
                pool = calibrated(pool, broken, hours, self.settings)
        yield from zip(all_, amounts, writes, strict=True)


Policy = Formula | Window | Peak


def _written(wanted: Float, times: Float, threshold: float, max_s: float) -> tuple[Float, int]:
    stands, count, present, written_s = np.empty(len(wanted)), 0, -1.0, -np.inf
    for i, amount in enumerate(wanted):
        if present < 0 or abs(amount - present) > threshold * present or times[i] - written_s > max_s:
            present, written_s = float(amount), float(times[i])
            count += times[i] - times[0] >= WARM_S
        stands[i] = present
    return stands, count


def figures(policy: Policy, all_: Sequence[Machine]) -> Figures:
    """Mean lent, share of node-hours broken, writes per node and day."""
    lent = hours = broken = days = 0.0
    writes = 0
    for machine, stands, count in policy.stands(all_):
        warm = machine.times - machine.times[0] >= WARM_S
        total = machine.use.sum(axis=0)
        over = np.zeros(len(total), dtype=bool)
        over[1:] = total[1:] + stands[:-1] > 1.0 + 1e-9
        hour = (machine.times // 3600).astype(np.int64)
        hours += len(np.unique(hour[warm]))
        broken += len(np.unique(hour[warm & over]))
        gaps = np.diff(machine.times)
        span = gaps[warm[:-1]].sum()
        lent += float((stands[:-1] * gaps)[warm[:-1]].sum() / span)
        days += span / 86_400
        writes += count
    return Figures(100 * lent / len(all_), 100 * broken / hours, writes / days)


def curves() -> Mapping[str, Sequence[Policy]]:
    """Each policy at several settings, from cautious to bold."""
    return {
        "formula": [Formula(share) for share in (0.60, 0.70, 0.80, 0.85, 0.88, 0.90, 0.92, 0.95)],
        "n-sigma": [Window(sigmas=n) for n in (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0)],
        "percentile": [Window(share=q) for q in (0.80, 0.90, 0.95, 0.98, 0.99, 1.0)],
        "max": [Window(sigmas=n, share=0.99) for n in (1.0, 2.0, 3.0, 5.0)],
        "peak": [Peak(PeakSettings(risk=risk)) for risk in (0.0003, 0.001, 0.003, 0.01, 0.02, 0.03, 0.05)],
    }


def at_risk(points: Sequence[Figures], risk_pct: float) -> Figures | None:
    """The most that a policy lends at this risk: the boldest setting that keeps it; None where none does."""
    kept = [point for point in points if point.risk_pct <= risk_pct]
    return max(kept, key=lambda figures: figures.lent_pct) if kept else None


def main(arguments: Sequence[str] | None = None) -> int:
    """A row a setting; then what each policy lends at the stated risk, and at the risk that upstream's formula
    keeps at its default of 60 percent.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--set", choices=SETS, action="append", dest="sets")
    parser.add_argument("--half", choices=("reported", "tuned"), default="reported")
    parser.add_argument("--limit", type=int, default=250, help="machines of each half; 0 = all")
    parser.add_argument("--policy", action="append", dest="policies", help="also formula is run; default: all")
    parser.add_argument("--risk", type=float, default=1.0, help="percent of node-hours")
    asked = parser.parse_args(arguments)
    for which in asked.sets or SETS:
        chosen = [
            machine
            for machine in machines(which, asked.limit)
            if is_reported(machine.name) == (asked.half == "reported")
        ]
        points: dict[str, list[Figures]] = {}
        rows: list[dict[str, Any]] = []
        for name, policies in curves().items():
            if asked.policies and name not in ("formula", *asked.policies):
                continue
            points[name] = [figures(policy, chosen) for policy in policies]
            rows += [
                {"set": which, "machines": len(chosen), "policy": name, "setting": _setting(policy), **_rounded(found)}
                for policy, found in zip(policies, points[name], strict=True)
            ]
        show(rows, asked.json)
        default = points["formula"][0]
        for allowed in (asked.risk, default.risk_pct):
            show(
                [
                    {
                        "set": which,
                        "at_risk_pct": round(allowed, 3),
                        "policy": name,
                        **_rounded(kept),
                        "lent_of_default": round(kept.lent_pct / default.lent_pct, 2),
                        "writes_of_default": round(kept.writes / default.writes, 2),
                    }
                    for name, found in points.items()
                    if (kept := at_risk(found, allowed)) is not None
                ],
                asked.json,
            )
    return 0


def _setting(policy: Policy) -> str:
    if isinstance(policy, Formula):
        return f"reclaim {policy.reclaim:.2f}"
    if isinstance(policy, Window):
        return f"{policy.sigmas:g} sigma, p{100 * policy.share:g}"
    return f"risk {100 * policy.settings.risk:g} %"


def _rounded(found: Figures) -> dict[str, float]:
    return {
        "lent_pct": round(found.lent_pct, 2),
        "risk_pct": round(found.risk_pct, 3),
        "writes": round(found.writes, 1),
    }


if __name__ == "__main__":
    raise SystemExit(main())
