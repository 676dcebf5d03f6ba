"""OpenTelemetry spans of rounds and of moves.

A move takes minutes, several processes take part in it, and the rebalancer may be restarted meanwhile. A trace for each
round, and one for each job when it ends, made from the times of its conditions, which are stored; what was measured
after a move is a trace of its own, since it comes minutes later.

    plan round          a round
      read workloads    replicas of workloads that are not watched
      simulate          all kinds of moves, on the engine
      start             room that is kept for pods that wait, and jobs handed over; writes of jobs go on in the
                        background
    move pod            from the creation of the job to its end
      wait for limits   until a reservation was created
      reserve           until that has a node
      evict             until the pod is gone: waiting for limits and budgets, and its termination
      place             until a pod without a node has one
      replace           until the replacement has the reserved room
      become ready      until the replacement is ready
    measure move        from the end of the job to the verdict `Helped`

Limits: the API server stores whole seconds. A job without a reservation (EvictDirectly) has no phases but `evict`. Jobs
of other controllers are traced too.
"""

from __future__ import annotations

from math import isnan

from cotenant.engine.migration.proof import ended_s
from cotenant.engine.rebalancer.plan import MovePlan
from cotenant.model.groups.migration import JobMode, JobPhase, JobStep, MigrationJob
from cotenant.services.kube_process.decision_trace import LONGEST_REASON, DecisionTrace, SpanSink, of_pod

ROUND, READ, SIMULATE, START = "plan round", "read workloads", "simulate", "start"
MOVE, MEASURE = "move pod", "measure move"
PHASES = {  # what ends when a condition becomes True, in their order
    JobStep.RESERVATION_CREATED: "wait for limits",
    JobStep.RESERVATION_SCHEDULED: "reserve",
    JobStep.EVICTION: "evict",
    JobStep.POD_SCHEDULED: "place",
    JobStep.POD_BOUND: "replace",
    JobStep.POD_READY: "become ready",
}
_BY_RESERVATION = tuple(
    step for step in PHASES if step is not JobStep.POD_SCHEDULED
)  # only a pod without a node has that
_RESULTS = {JobPhase.SUCCEEDED: "moved", JobPhase.FAILED: "failed", JobPhase.ABORTED: "aborted"}


class MoveSpans:
    """Makes the traces of ended rounds and jobs. Times are those of the process's clock."""

    def __init__(self, sink: SpanSink) -> None:
        self._sink = sink

    def planned(
        self, plan: MovePlan, began_s: float, read_s: float, planned_s: float, now_s: float, created: int
    ) -> None:
        """A round: it began, had read, had planned, and has ended. `created`: jobs."""
        trace = DecisionTrace(ROUND, began_s, now_s)
        trace.phase(READ, began_s, read_s)
        trace.phase(SIMULATE, read_s, planned_s)
        trace.phase(START, planned_s, now_s)
        said = {
            "cotenant.nodes": plan.nodes,
            "cotenant.pods": plan.pods,
            "cotenant.moves": len(plan.moves),
            "cotenant.jobs": created,
            "cotenant.kept": len(plan.kept),
        }
        self._sink.add(trace.finished("moves" if plan.moves else "nothing to move", said))

    def ended(self, job: MigrationJob, now_s: float) -> None:
        """A final status of a job is stored: its end, or the verdict about it."""
        verdict = job.condition(JobStep.HELPED)
        if verdict is None:
            self._moved(job, now_s)
            return
        begun_s = ended_s(job)
        trace = DecisionTrace(MEASURE, verdict.since_s if isnan(begun_s) else begun_s, verdict.since_s)
        result = {"True": "helped", "False": "did not help"}.get(verdict.status, "not known")
        self._sink.add(trace.finished(result, _said(job) | {"cotenant.reason": verdict.message[:LONGEST_REASON]}))

    def _moved(self, job: MigrationJob, now_s: float) -> None:
        trace = DecisionTrace(MOVE, job.created_s, now_s)
        at_s = job.created_s
        for step, name in PHASES.items():
            done = job.condition(step)
            if done is not None and done.status == "True" and not isnan(done.since_s):
                trace.phase(name, at_s, done.since_s)
                at_s = done.since_s
        why = ""
        if job.phase is not JobPhase.SUCCEEDED:
            why = f"{job.status_reason}: {job.message}"[:LONGEST_REASON]
            steps = (JobStep.EVICTION,) if job.mode is JobMode.EVICT_DIRECTLY else _BY_RESERVATION
            missing = next((entry for entry in steps if not job.has(entry)), None)
            if missing is not None:
                trace.phase(PHASES[missing], at_s, now_s, error=why)
        said = _said(job) | {"cotenant.reason": why or job.reason[:LONGEST_REASON]}
        self._sink.add(trace.finished(_RESULTS[job.phase], said, why))


def _said(job: MigrationJob) -> dict[str, str | int]:
    said: dict[str, str | int] = {**of_pod(job.pod.key, job.pod.uid), "cotenant.job": job.name}
    if job.node:
        said["k8s.node.name"] = job.node
    if job.note is not None:
        said["cotenant.target"] = job.note.target
    if job.trigger:
        said["cotenant.trigger"] = job.trigger
    return said
