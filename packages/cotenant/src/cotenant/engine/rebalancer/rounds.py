"""One round of a rebalancer: from the jobs that are stored to the jobs of the next moves.

What is under way, what was moved lately and what did not help decide with the plan which moves are made, and a process
in a cluster and the lab must decide alike. One function over planner and migrations; whoever drives it creates the
jobs.
Limits: scales and amplified nodes are read by the driver before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.engine.migration.migrations import Migrations
from cotenant.engine.rebalancer.broken import burning
from cotenant.engine.rebalancer.jobs import job_of
from cotenant.engine.rebalancer.missed import MISSED
from cotenant.engine.rebalancer.plan import MovePlan, PlannedMove
from cotenant.engine.rebalancer.planner import Planner
from cotenant.engine.rebalancer.round_limits import controller
from cotenant.engine.rebalancer.settings import RebalancerSettings
from cotenant.model.groups.migration import MigrationJob

STAYS_S = 3600.0  # a replacement is not moved again within this time
_MIN_KEPT_S = 300.0  # for which room is kept for a pod that waits


@dataclass(frozen=True, slots=True)
class Intent:
    """A planned move and its job. `stays`: why the job is not created, empty = it is."""

    move: PlannedMove
    job: MigrationJob
    stays: str = ""


def plan_round(
    planner: Planner, migrations: Migrations, settings: RebalancerSettings, now_s: float
) -> tuple[MovePlan, tuple[Intent, ...]]:
    """The plan of a round, with the moves under way counted, and what becomes of its moves. The engine is as before
    afterwards.
    """
    unfinished = migrations.unfinished()
    kept = {job.pod.uid: f"job {job.name} moves it already" for job in unfinished}
    kept |= moved_lately(migrations, now_s)
    objectives = settings.kinds.objectives
    plan = planner.plan_beside(
        now_s,
        unfinished,
        migrations.ended_since(now_s - settings.expires_s),
        kept,
        lambda workload, replicas, more: migrations.rate(workload, replicas, more, now_s),
        migrations.kinds_since(now_s - (objectives.misses.rest_s if objectives is not None else 0.0)),
        migrations.begun_by(MISSED),
    )
    resting, burns = migrations.resting(now_s), burning(planner.standings, now_s)
    intents = []
    for move in plan.moves:
        entry = planner.cluster.find(move.pod)
        if entry is None or entry.seen.uid != move.uid:
            continue
        owner = controller(entry)
        replicas = planner.replicas.get(owner.uid, 1) if owner is not None else 1
        job = job_of(move, owner.uid if owner is not None else "", replicas, settings.acting, now_s)
        note = job.note
        assert note is not None
        kind = note.kind
        stays = f"moves of {kind} did not help, none for {resting[kind] - now_s:.0f} s" if kind in resting else ""
        intents.append(Intent(move, replace(job, note=replace(note, burning=burns)), stays))
    return plan, tuple(intents)


def kept_until_s(settings: RebalancerSettings, now_s: float) -> float:
    """Until when the room that moves make is kept for the pods that wait."""
    return now_s + max(settings.acting.ttl_s, _MIN_KEPT_S)


def moved_lately(migrations: Migrations, now_s: float) -> dict[str, str]:
    """Replacements that are not moved again yet, by UID, with the reason."""
    return dict.fromkeys(migrations.moved_since(now_s - STAYS_S), "it was moved less than an hour ago")
