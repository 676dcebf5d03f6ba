"""What the console shows of other processes: moves and workload profiles as their controllers write them, entries
of the credit journal, pages of a node's agent, made of its own types, gangs and reservations as the scheduler
describes them, and a folder of the lab.
"""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cotenant.drivers.kube.kinds.custom.migration_job import job_manifest, written_job_status
from cotenant.drivers.kube.kinds.custom.workload_profile import API_VERSION, axes_fields, overall_fields
from cotenant.engine.node.decision_log import HeldKnob
from cotenant.engine.node.recovery.incident import IncidentEvent, TroubleReading
from cotenant.engine.node.recovery.incident import Proof as IncidentProof
from cotenant.engine.node.recovery.stages import IncidentStage, RecoveryRung
from cotenant.engine.node.recovery.story import IncidentStory, ServiceStory
from cotenant.engine.plugins.gangs.gang_view import GangView, MemberView
from cotenant.engine.plugins.reservations.instructions import ReservationView
from cotenant.model.cluster.demands import NO_HOLDINGS
from cotenant.model.cluster.workload_profile import (
    AxisReading,
    FigureSource,
    Overall,
    ProfileAxis,
    ProfileFigure,
    Reading,
    Unknown,
)
from cotenant.model.groups.gang import GangPhase, GangSpec
from cotenant.model.groups.migration import JobPhase, JobReason, JobStep, MigrationJob, MoveNote, PodRef
from cotenant.model.groups.reservation import ReservationPhase
from cotenant.model.machine.counters import Gap
from cotenant.model.machine.knob import Knob, KnobLease, KnobTarget, LeaseState
from cotenant.model.machine.node_decision import Reason
from cotenant.model.machine.node_state import GroupUse, HostUse, ServiceHealth
from cotenant.model.resources import Amounts
from cotenant.model.results.forms import METRICS, RESULTS_JSON, FrameCell, MachineFrames, RunSeries
from cotenant.policy.interference.attribution.causes import CandidateCause, TroubleCause
from cotenant.services.agent.http import HoldsPage, LeasesPage, PodPage, StatePage
from cotenant.services.scheduler.pages.encoding import page
from cotenant_lab.contract import Measures, RunResult, RunSpec
from cotenant_lab.metrics_by_workload import catalogue
from cotenant_lab.report.run_answers import metric_views
from cotenant_lab.storage import run_path, save_result, write_json

AT_S = 1_767_225_600.0  # 2026-01-01T00:00:00Z


def move(name: str, pod: str, phase: JobPhase = JobPhase.PENDING, *, helped: str = "", **more: Any) -> dict[str, Any]:
    """A PodMigrationJob of the rebalancer, with a prediction for CPU and memory; `helped`: the verdict."""
    namespace, _, pod_name = pod.partition("/")
    job = MigrationJob(
        name,
        f"uid-{name}",
        PodRef(namespace, pod_name, f"uid-{pod_name}"),
        is_ours=True,
        reason="node-1 is overutilized: cpu 82.0% is above 70%",
        trigger="LowNodeLoad",
        note=MoveNote(
            "LowNodeLoad/default/node/cpu",
            "node-1",
            "node-2",
            "cpu",
            node_before={"cpu": 82.0, "memory": 40.0},
            node_after={"cpu": 66.5, "memory": 38.0},
            target_before={"cpu": 31.0, "memory": 22.0},
            target_after={"cpu": 46.5, "memory": 24.0},
        ),
        phase=phase,
        node="node-1" if phase is not JobPhase.PENDING else "",
    )
    job = replace(job, **more)
    if phase in (JobPhase.RUNNING, JobPhase.SUCCEEDED):
        job = job.with_condition(JobStep.RESERVATION_SCHEDULED, "True", AT_S + 2, "", "on node-2")
        job = job.with_condition(JobStep.EVICTION, "True", AT_S + 5, JobReason.EVICT_COMPLETE)
    if phase is JobPhase.SUCCEEDED:
        job = job.with_condition(JobStep.POD_READY, "True", AT_S + 20)
    if helped:
        job = job.with_condition(
            JobStep.HELPED, helped, AT_S + 200, "SourceRelieved", "cpu of node-1 fell from 82% to 65%"
        )
    made = job_manifest(job)
    made["status"] = written_job_status(job)
    return made


def figure(
    value: int, spread: int = 60, samples: int = 40, source: FigureSource = FigureSource.LEARNED
) -> ProfileFigure:
    """A figure with a symmetric interval."""
    return ProfileFigure(value, max(0, value - spread), min(1000, value + spread), samples, source)


def profile(namespace: str, name: str, values: dict[ProfileAxis, tuple[int, int]]) -> dict[str, Any]:
    """A WorkloadProfile that has learned tendency and sensitivity of these axes, in thousandths."""
    none: Reading = Unknown("NodeMetrics do not report it")
    axes = {
        axis: AxisReading(*(figure(number) for number in values[axis])) if axis in values else AxisReading(none, none)
        for axis in ProfileAxis
    }
    status = {"axes": axes_fields(axes), "overall": overall_fields(Overall(figure(300), figure(120)))}
    return {
        "apiVersion": API_VERSION,
        "kind": "WorkloadProfile",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"workload": {"kind": "Deployment", "name": name}},
        "status": {**status, "updatedAt": "2026-01-01T00:00:00Z"},
    }


def control_zone(name: str, spec: Any, nodes: Any = None, generation: int = 1) -> dict[str, Any]:
    """A ControlZone with the entries that its nodes' agents wrote."""
    return {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "ControlZone",
        "metadata": {"name": name, "generation": generation},
        "spec": spec,
        "status": {"nodes": nodes},
    }


WEB = {
    ProfileAxis.CPU: (220, 640),
    ProfileAxis.CACHE: (180, 720),
    ProfileAxis.MEMORY: (300, 210),
    ProfileAxis.RUN_QUEUE: (90, 810),
    ProfileAxis.START_UP: (400, 120),
}
SORT = {
    ProfileAxis.CPU: (760, 150),
    ProfileAxis.CACHE: (540, 240),
    ProfileAxis.MEMORY: (410, 90),
    ProfileAxis.MEMORY_BANDWIDTH: (690, 330),
    ProfileAxis.RUN_QUEUE: (820, 60),
}


def entry(number: int, cause: str, payer: str, payee: str, milli: int, **evidence: str | int) -> dict[str, Any]:
    """An entry of the credit process's pages."""
    return {
        "number": number,
        "key": f"k{number}",
        "at_ms": 1_767_225_600_000 + 60_000 * number,
        "cause": cause,
        "payer": payer,
        "payee": payee,
        "milli": milli,
        "evidence": evidence,
        "explanation": "",
    }


def credit_pages(hostile: str) -> dict[str, Any]:
    """Pages of the credit process: a lender, a borrower, and a tenant with a hostile name."""
    lent, borrowed = "tenant/research", "tenant/shop"
    entries = [
        entry(5, hostile, f"tenant/{hostile}", "house", 4, note=hostile),
        entry(4, "lent", borrowed, lent, 700, idle_milli_cpu=12_000, seconds=60),
        entry(3, "compensated", borrowed, lent, 1_250, node="node-1", confidence_permille=900),
        entry(2, "decayed", lent, "house", 90, half_life_s=86_400),
        entry(1, "lent", borrowed, lent, 2_400, idle_milli_cpu=40_000, seconds=60),
    ]
    tenants = [
        {"tenant": name, "balance_milli": milli, "standing": standing}
        for name, milli, standing in (("research", 4_260, 50), ("shop", -4_350, -50), (hostile, -4, 0))
    ]
    of = {
        tenant["tenant"]: [e for e in entries if f"tenant/{tenant['tenant']}" in (e["payer"], e["payee"])]
        for tenant in tenants
    }
    return {
        "/credit/v1/tenants": tenants,
        "/credit/v1/entries": entries,
        **{f"/credit/v1/tenants/{tenant['tenant']}": {**tenant, "entries": of[tenant["tenant"]]} for tenant in tenants},
    }


NOW_US = 9_000_000_000  # of the agent's clock


def state_page(node: str, *pods: PodPage) -> StatePage:
    """What an agent says of its node."""
    return StatePage(
        node=node,
        mode="act",
        at_us=NOW_US,
        interval_us=1_000_000,
        keeper_up=True,
        keeper_said="",
        host=HostUse(16, 9_000, 64 << 30, 40 << 30, 180_000, 12_000, 0, 45_000, None),
        best_effort_group="kubepods/besteffort",
        best_effort=GroupUse("kubepods/besteffort", 3_000),
        pods=pods,
        gpus=(),
        cache=(),
        gaps=(Gap("cycles", "a hardware performance counter"),),
        sources={},
    )


def pod_page(pod: str, group: str, delay_ppm: int, p99_us: int = 0) -> PodPage:
    """A pod of it; with a p99, a service with an objective of 20 ms."""
    use = GroupUse(group, 1_500, 30_000, delay_ppm, delay_ppm // 2, 0, 0, 0, 2 << 30)
    health = ServiceHealth(1_000_000, 100, p99_us, 4, 0) if p99_us else None
    objective_us = 20_000 if p99_us else None
    return PodPage(pod, f"uid-{pod}", group, "LS" if p99_us else "BE", "shop", "Running", objective_us, use, health)


def leases(hostile: str) -> LeasesPage:
    """A lease of a pod's CPU cap, with 12 s to go, and one that no policy wants any more."""
    cap, idle = KnobTarget("kubepods/pod-b/c1", Knob.CPU_MAX), KnobTarget("kubepods/besteffort", Knob.CPU_IDLE)
    held = KnobLease(
        cap, "raw", "150000 100000", Reason("recovery", "cap for sort"), LeaseState.HELD, AT_S, NOW_US + 12_000_000,
        before="max 100000", stands="150000 100000",
    )  # fmt: skip
    left = KnobLease(idle, "0", "1", Reason(hostile, hostile), LeaseState.RESTORING, AT_S, NOW_US, hostile, before="0")
    return LeasesPage((held, left))


def holds(hostile: str) -> HoldsPage:
    """What the engine wants: that cap, against another policy, and a weight that was refused."""
    cap, weight = KnobTarget("kubepods/pod-b/c1", Knob.CPU_MAX), KnobTarget("kubepods/pod-a", Knob.CPU_WEIGHT)
    why = Reason("recovery", "web suffers: run delay 0.90 of 0.20; cap sort at half of its use")
    return HoldsPage(
        (
            HeldKnob(cap, "150000 100000", "held", "recovery", why, 1, (("suppress", "300000 100000"),),
                "after 30 s calm"),
            HeldKnob(weight, "500", "refused", "groups", Reason("identity", "LS"), 1, (), "", hostile),
        )
    )  # fmt: skip


def story_page(node: str, victim: str, culprit: str, hostile: str, workload: str = "") -> ServiceStory:
    """An incident that opened 90 s ago: a cap helped, and the service recovered after 8 s. With a workload, all its
    pods were meant.
    """
    opened = NOW_US - 90_000_000
    incident = IncidentStory(
        number=7,
        stage=IncidentStage.HOLDING,
        pod=victim,
        uid="u",
        objective="shop/front",
        objective_us=20_000,
        signal="run_delay",
        threshold_ppm=200_000,
        before=TroubleReading(900_000, 14_400),
        cause=TroubleCause.POD.value,
        culprit=culprit,
        workload=workload,
        confidence_ppm=930_000,
        candidates=(
            CandidateCause(TroubleCause.POD, "u2", culprit, 930_000, workload=workload),
            CandidateCause(TroubleCause.POD, "u3", hostile, 40_000),
        ),
        proofs=(
            IncidentProof(
                RecoveryRung.CAP,
                culprit,
                opened + 3_000_000,
                TroubleReading(900_000, None),
                TroubleReading(90_000, None),
                None,
                True,
                workload,
            ),
        ),
        opened_us=opened,
        recovered_after_us=8_000_000,
        ended_us=None,
        chain=(),
        events=(
            IncidentEvent(opened, IncidentStage.SUSPECTED, "run delay 0.90, threshold 0.20"),
            IncidentEvent(opened + 3_000_000, IncidentStage.ACTING, f"cap for {culprit}"),
            IncidentEvent(opened + 8_000_000, IncidentStage.HOLDING, hostile),
        ),
    )  # fmt: skip
    return ServiceStory(victim, node, NOW_US, True, (victim,), (incident,), ())


def plain(page: object) -> Any:
    """A page as it arrives."""
    return json.loads(msgspec.json.encode(page))


def agent_pages(node: str, victim: str, culprit: str, hostile: str, workload: str = "") -> dict[str, Any]:
    """Every page of the agent of one node that the console asks for."""
    pods = (
        pod_page(victim, "kubepods/pod-a", 410_000, 35_000),
        pod_page(culprit, "kubepods/pod-b", 20_000),
        pod_page(hostile, "kubepods/pod-c", 0),
    )
    story = plain(story_page(node, victim, culprit, hostile, workload))
    return {
        "/v1/state": plain(state_page(node, *pods)),
        "/v1/leases": plain(leases(hostile)),
        "/v1/holds": plain(holds(hostile)),
        f"/v1/explain?service={victim.replace('/', '%2F')}": story,
        f"/v1/explain?service={victim}": story,
    }


def run_machines(missed: int) -> MachineFrames:
    """Five frames of 30 of 60 machines, the last of them down; in each frame one more machine has `missed` missed
    objectives.
    """
    cells = np.zeros((5, 30, len(FrameCell)), np.uint8)
    cells[:, :, FrameCell.SERVICE_ASKED], cells[:, :, FrameCell.BATCH_ASKED] = 40, 70
    cells[:, :, FrameCell.SERVICE_USED], cells[:, :, FrameCell.BATCH_USED] = 20, 30
    for frame in range(5):
        cells[frame, :frame, FrameCell.MISSED] = missed
    cells[:, 29] = 0
    cells[:, 29, FrameCell.DOWN] = 1
    violated = np.arange(5) if missed else np.zeros(5, np.int64)
    return MachineFrames(np.arange(5) * 1800.0, np.arange(0, 60, 2), cells, 60, violated, np.full(5, 0.5))


def lab_folder(folder: Path, policies: tuple[str, ...], seeds: int = 3) -> None:
    """Results of an experiment at two loads, the first policy ours; the curves of its runs with a spike at the
    beginning.
    """
    rows, paired = [], []
    for load in (0.7, 0.9):
        for k, policy in enumerate(policies):
            figures = {
                "violation": 0.01 * (k + 1) * load,
                "violation_ci": 0.002,
                "wait_mean_s": 40.0 + 9 * k,
                "wait_mean_s_ci": 30.0,
                "utilisation": 0.8,
                "utilisation_ci": None,
                "slowdown_p99": None,
            }
            rows.append({"policy": policy, "role": "rival" if k else "ours", "load": load, "seeds": seeds, **figures})
            paired += [
                {"policy": policy, "against": policies[0], "metric": name, "load": load, "difference": difference,
                    "difference_ci": half, "seeds": seeds}
                for name, difference, half in (("violation", 0.01 * k * load, 0.003), ("wait_mean_s", 9.0 * k, 31.0))
                if k
            ]  # fmt: skip
            for seed in range(seeds):
                x = np.linspace(0.0, 24.0, 900)
                y = np.abs(np.sin(x / 3)) * (k + 1) + np.where(x < 0.1, 60.0, 0.0)
                spec = RunSpec("founding", policy, seed, load)
                result = RunResult(
                    spec,
                    Measures(),
                    (RunSeries("queued", "time (h)", "pods waiting", x, y),),
                    np.zeros(1),
                    machine_frames=run_machines(k) if policy in ("cotenant", "kube-default") else None,
                )
                save_result(run_path(folder, spec), result)
    written = {
        "workload": "founding",
        "file": None,
        "seeds": seeds,
        "seed_list": list(range(seeds)),
        "loads": [0.7, 0.9],
        "ours": policies[0],
        "rows": rows,
        "paired": paired,
        "sustained_load": [],
        "notes": [policies[-1]],
        "failed": [],
        METRICS: metric_views(catalogue("founding")),
    }
    write_json(folder / RESULTS_JSON, written)


def gang(key: str, pods: tuple[str, ...]) -> Any:
    """A gang whose first pod has a node, as the scheduler's page has it."""
    members = tuple(
        MemberView(pod, pod, "waiting" if k else "bound", "" if k else "node-1", pod) for k, pod in enumerate(pods)
    )
    view = GangView(
        key=key,
        spec=GangSpec(key, len(pods), len(pods)),
        problems=(),
        phase=GangPhase.PENDING,
        members=members,
        judged_with=(key,),
        needs=(key, "shop/other"),
        satisfied=False,
        placed=1,
        holding=0,
        waiting=len(pods) - 1,
        why="it waits for 1 member",
        holds_until_s=inf,
    )
    return json.loads(page(view).body)


def reservations(name: str, pod: str) -> Any:
    """A reservation that this pod has drawn from, as the scheduler's page of its node has it."""
    view = ReservationView(
        name=name,
        uid=name,
        phase=ReservationPhase.AVAILABLE,
        node="node-1",
        allocate_once=True,
        policy="Default",
        reserved=Amounts.of({"cpu": 4000, "memory": 8 << 30}),
        left=Amounts.of({"cpu": 1000}),
        holds=NO_HOLDINGS,
        owners=(pod,),
        waiting=("shop/too-large",),
        ends_s=inf,
        why="",
    )
    return json.loads(page([view]).body)


def topology(node: str, zones: int) -> dict[str, Any]:
    """A NodeResourceTopology of 32 CPUs."""
    cpu = str(32 // zones)
    return {
        "metadata": {"name": node},
        "topologyPolicies": ["None"],
        "zones": [
            {"name": f"node-{k}", "type": "Node", "resources": [{"name": "cpu", "capacity": cpu, "allocatable": cpu}]}
            for k in range(zones)
        ],
    }
