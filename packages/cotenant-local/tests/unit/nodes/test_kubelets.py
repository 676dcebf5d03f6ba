from typing import Any

import msgspec
import pytest

from cotenant.model.cluster.annotations import EXIT_CODE, RUN_SECONDS, SIMULATED
from cotenant_lab.world.config import WorldConfig
from cotenant_local.controllers.runtime.actions import Delete, EmitEvent, Patch
from cotenant_local.controllers.views.core import stamp
from cotenant_local.controllers.views.nodes import NodeObjectView
from cotenant_local.controllers.views.pods import PodObjectView
from cotenant_local.nodes.kubelets import RESTART_S, START_S, STOP_S, Kubelets
from cotenant_local.nodes.world import LiveWorld

NOW = 1_800_000_000.0
SPEED = 10.0


class Machine:
    """One node of four cores with its kubelet and a clock."""

    def __init__(self) -> None:
        config = WorldConfig(node_cores=4, node_memory_bytes=8 << 30, pair_cores=2.0)
        self.k = Kubelets(LiveWorld(config, SPEED, NOW))
        self.now = NOW
        self.pods: dict[str, dict[str, Any]] = {}
        self.deleted: list[str] = []
        self.events: list[tuple[str, str, str]] = []  # type, reason, message
        self.k.add_node("n")
        self.node()

    def node(self, **labels: str) -> None:
        body = {
            "metadata": {"name": "n", "uid": "nu", "labels": labels},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "5"}},
        }
        self.k.observe_node(msgspec.convert(body, NodeObjectView))

    def pod(self, name: str, cpu: str = "1", status: dict[str, Any] | None = None, **more: Any) -> None:
        notes = more.pop("annotations", {})
        containers = [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}, "ports": more.pop("ports", [])}
        ]
        self.pods[name] = {
            "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": notes},
            "spec": {"nodeName": "n", "containers": containers, **more},
            "status": status or {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]},
        }
        self.observe_node(name)

    def observe_node(self, name: str) -> None:
        self.k.observe_pod(msgspec.convert(self.pods[name], PodObjectView), self.now)

    def delete(self, name: str, grace: int = 30) -> None:
        meta = self.pods[name]["metadata"]
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = stamp(self.now + grace), grace
        self.observe_node(name)

    def run(self, seconds: float) -> None:
        """Advance time; writes reach the API and are observed."""
        end = self.now + seconds
        while True:
            self.now = min(end, max(self.now, self.k.next_at()))
            self.k.advance(self.now)
            writes, self.k.writes = self.k.writes, []
            for write in writes:
                if isinstance(write, Patch):
                    self.pods[write.name]["status"] |= write.body["status"]
                    self.observe_node(write.name)
                elif isinstance(write, EmitEvent):
                    self.events.append((write.type, write.reason, write.message))
                elif isinstance(write, Delete):
                    assert write.grace_s == 0
                    self.deleted.append(write.name)
                    del self.pods[write.name]
                    self.k.forget_pod(write.uid, self.now)
            if self.now >= end and self.k.next_at() > end:
                return

    def phase(self, name: str) -> str:
        return str(self.pods[name]["status"]["phase"])


def test_a_bound_pod_runs_and_is_ready_in_one_write() -> None:
    m = Machine()
    m.pod("p")
    assert m.k.next_at() == pytest.approx(NOW + START_S)
    m.run(1)
    status = m.pods["p"]["status"]
    assert m.phase("p") == "Running"
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodScheduled", "Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers"), "True"
    )
    assert status["podIP"] != status["hostIP"]
    assert status["containerStatuses"][0]["ready"] is True
    m.run(1_000)
    assert m.phase("p") == "Running"  # without the annotation, the pod never ends


def test_a_pod_runs_for_its_simulated_duration_and_succeeds() -> None:
    m = Machine()
    m.pod("p", annotations={RUN_SECONDS: "100"}, restartPolicy="Never")
    m.run(START_S + 100 / SPEED - 0.5)
    assert m.phase("p") == "Running"
    m.run(3)
    assert m.phase("p") == "Succeeded"
    assert m.pods["p"]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert m.k.counts() == {"ended": 1}


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 1, "Failed"),
        ("Never", 0, "Succeeded"),
        ("OnFailure", 0, "Succeeded"),
        ("OnFailure", 3, "Running"),
        ("Always", 0, "Running"),
    ],
)
def test_the_restart_policy_determines_what_happens_after_exit(policy: str, code: int, phase: str) -> None:
    m = Machine()
    m.pod("p", annotations={RUN_SECONDS: "10", EXIT_CODE: str(code)}, restartPolicy=policy)
    m.run(4)
    assert m.phase("p") == phase
    if phase == "Running":
        container = m.pods["p"]["status"]["containerStatuses"][0]
        assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert container["lastState"]["terminated"]["exitCode"] == code
        m.run(RESTART_S - 2.5)
        container = m.pods["p"]["status"]["containerStatuses"][0]
        assert (container["restartCount"], container["ready"]) == (1, True)


def test_a_pod_that_does_not_fit_is_rejected_with_the_kubelets_reason() -> None:
    m = Machine()
    m.pod("fits", "3")
    m.run(1)
    m.pod("large", "1500m")
    m.run(1)
    assert m.pods["large"]["status"]["reason"] == "OutOfcpu"
    assert "requested: 1500, used: 3000, capacity: 4000" in m.pods["large"]["status"]["message"]
    m.delete("fits")
    m.run(2)
    m.pod("next", "1500m")
    m.run(1)
    assert m.phase("next") == "Running"


def test_slots_ports_and_selectors_are_checked() -> None:
    m = Machine()
    m.pod("a", "100m", ports=[{"containerPort": 80, "hostPort": 8080}])
    m.pod("b", "100m", ports=[{"containerPort": 80, "hostPort": 8080}])
    m.pod("c", "100m", nodeSelector={"disk": "ssd"})
    m.run(1)
    assert m.phase("a") == "Running"
    assert m.pods["b"]["status"]["reason"] == "NodePorts"
    assert m.pods["c"]["status"]["reason"] == "NodeAffinity"
    for i in range(5):
        m.pod(f"p{i}", "1m")
    m.run(1)
    assert sorted(m.pods[f"p{i}"]["status"].get("reason", "runs") for i in range(5)) == ["OutOfpods"] + ["runs"] * 4


def test_deletion_honours_the_grace_period_and_ends_with_a_forced_delete() -> None:
    m = Machine()
    m.pod("p")
    m.pod("hurry")
    m.run(1)
    m.delete("p")
    m.delete("hurry", grace=0)
    m.run(0.1)
    assert m.deleted == ["hurry"]
    m.run(STOP_S)
    assert m.deleted == ["hurry", "p"]
    assert m.k.counts() == {}


def test_a_pod_deleted_before_its_start_is_removed_immediately() -> None:
    m = Machine()
    m.pod("p")
    m.delete("p")
    m.run(0.1)
    assert m.deleted == ["p"]


def test_pods_keep_their_remaining_time_over_a_process_restart() -> None:
    m = Machine()
    running = {
        "phase": "Running",
        "containerStatuses": [{"name": "c", "state": {"running": {"startedAt": stamp(NOW - 8)}}}],
    }
    m.pod("p", annotations={RUN_SECONDS: "100"}, restartPolicy="Never", status=running)
    m.run(1.5)
    assert m.phase("p") == "Running"
    m.run(1.5)  # 80 of 100 simulated seconds were done
    assert m.phase("p") == "Succeeded"


def test_a_failed_node_writes_nothing_and_its_pods_restart_when_it_is_restored() -> None:
    m = Machine()
    m.pod("work", annotations={RUN_SECONDS: "100"}, restartPolicy="Never")
    m.pod("goes")
    m.run(5)
    assert m.k.fail("n", m.now)
    assert not m.k.fail("n", m.now)
    m.delete("goes")
    m.pod("late")
    m.run(60)
    assert (m.phase("work"), m.phase("late"), m.deleted) == ("Running", "Pending", [])
    assert m.k.restore("n", m.now)
    m.run(3)
    assert m.deleted == ["goes"]
    assert m.phase("late") == "Running"
    assert m.pods["work"]["status"]["containerStatuses"][0]["restartCount"] == 1
    assert m.phase("work") == "Running"
    m.run(9)
    assert m.phase("work") == "Succeeded"


def test_a_pod_fails_at_its_active_deadline() -> None:
    m = Machine()
    m.pod("p", activeDeadlineSeconds=5)
    m.run(4)
    assert m.phase("p") == "Running"
    m.run(3)
    assert (m.phase("p"), m.pods["p"]["status"]["reason"]) == ("Failed", "DeadlineExceeded")


def test_pods_of_other_nodes_are_ignored() -> None:
    m = Machine()
    m.pod("p", nodeName="elsewhere")
    m.run(5)
    assert m.phase("p") == "Pending"
    assert m.k.counts() == {}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (RUN_SECONDS, "soon", f"annotation {RUN_SECONDS}: soon: expected a number that is not negative"),
        (SIMULATED, "{", f"annotation {SIMULATED}: Input data was truncated"),
        (SIMULATED, '{"swing": 2}', f"annotation {SIMULATED}: swing: 2"),
    ],
)
def test_an_annotation_that_cannot_be_parsed_is_an_event(name: str, value: str, expected: str) -> None:
    m = Machine()
    m.pod("p", annotations={name: value}, restartPolicy="Never")
    m.run(1)
    assert m.phase("p") == "Running"
    assert m.k.unparsed == 1
    [(kind, reason, message)] = m.events
    assert (kind, reason) == ("Warning", "AnnotationIgnored")
    assert message.startswith(expected)


@pytest.mark.parametrize(
    ("told", "spec"),
    [
        (True, {"restartPolicy": "Never"}),
        (True, {"restartPolicy": "OnFailure"}),
        (False, {"restartPolicy": "Always"}),
        (False, {"restartPolicy": "Never", "annotations": {RUN_SECONDS: "5"}}),
        (False, {"restartPolicy": "Never", "activeDeadlineSeconds": 5}),
        (False, {"restartPolicy": "Never", "annotations": {SIMULATED: "{}"}}),
    ],
)
def test_a_job_that_will_never_end_says_so_once(told: bool, spec: dict[str, Any]) -> None:
    m = Machine()
    m.pod("p", **spec)
    m.run(3)
    assert [reason for _, reason, _ in m.events] == ["RunsForever"] * told


def resize(m: Machine, name: str, cpu: str, memory: str = "", limit: str = "") -> None:
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    limits = {"memory": limit} if limit else {}
    m.pods[name]["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": limits}
    m.observe_node(name)


def condition(m: Machine, name: str, kind: str) -> tuple[str, str] | None:
    found = {c["type"]: (c.get("reason", ""), c.get("message", "")) for c in m.pods[name]["status"]["conditions"]}
    return found.get(kind)


def given(m: Machine, name: str) -> tuple[Any, Any]:
    status = m.pods[name]["status"]["containerStatuses"][0]
    return status.get("allocatedResources"), status.get("resources", {}).get("requests")


def test_a_resize_is_allocated_then_in_place() -> None:
    m = Machine()
    m.pod("a", "3")
    m.run(1)
    assert given(m, "a") == (None, None)
    resize(m, "a", "1")
    m.run(0.1)
    assert condition(m, "a", "PodResizeInProgress") == ("", "")
    assert given(m, "a") == ({"cpu": "1"}, {"cpu": "3"})
    m.run(1)
    assert condition(m, "a", "PodResizeInProgress") is None
    assert given(m, "a") == ({"cpu": "1"}, {"cpu": "1"})
    assert m.pods["a"]["status"]["containerStatuses"][0]["restartCount"] == 0
    m.pod("b", "3")  # there is room for it now
    m.run(1)
    assert m.phase("b") == "Running"


def test_a_resize_without_room_is_deferred_until_there_is() -> None:
    m = Machine()
    m.pod("a", "2")
    m.pod("b", "2")
    m.run(1)
    resize(m, "a", "3")
    m.run(0.1)
    found = condition(m, "a", "PodResizePending")
    assert found == ("Deferred", "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000")
    m.run(60)
    assert condition(m, "a", "PodResizePending") == found
    m.delete("b")
    m.run(5)
    assert condition(m, "a", "PodResizePending") is None
    assert given(m, "a") == ({"cpu": "3"}, {"cpu": "3"})


def test_a_deferred_resize_that_is_taken_back_leaves_nothing() -> None:
    m = Machine()
    m.pod("a", "2")
    m.pod("b", "2")
    m.run(1)
    resize(m, "a", "3")
    m.run(1)
    resize(m, "a", "2")
    m.run(1)
    assert condition(m, "a", "PodResizePending") is None
    assert given(m, "a") == ({"cpu": "2"}, {"cpu": "2"})


def test_what_the_node_could_never_hold_is_infeasible() -> None:
    m = Machine()
    m.pod("a", "2")
    m.run(1)
    resize(m, "a", "5")
    m.run(1)
    assert condition(m, "a", "PodResizePending") == (
        "Infeasible",
        "Node didn't have enough capacity: cpu, requested: 5000, capacity: 4000",
    )
    m.pod("b", "2")  # what was not given is not counted
    m.run(1)
    assert m.phase("b") == "Running"


def test_a_memory_limit_below_the_use_stays_in_progress_with_the_error() -> None:
    m = Machine()
    m.pod("a", "1")
    m.run(1)
    resize(m, "a", "1", "1Mi", "1Mi")
    m.run(1)
    reason, message = condition(m, "a", "PodResizeInProgress") or ("", "")
    assert reason == "Error"
    assert message.startswith("attempting to set pod memory limit (1048576) below current usage (")
    resize(m, "a", "1", "1Mi", "1Gi")
    m.run(1)
    assert condition(m, "a", "PodResizeInProgress") is None


def test_a_container_is_restarted_where_its_policy_asks() -> None:
    m = Machine()
    m.pod("a", "1")
    m.pods["a"]["spec"]["containers"][0]["resizePolicy"] = [
        {"resourceName": "memory", "restartPolicy": "RestartContainer"}
    ]
    m.observe_node("a")
    m.run(1)
    resize(m, "a", "2")
    m.run(1)
    assert m.pods["a"]["status"]["containerStatuses"][0]["restartCount"] == 0
    resize(m, "a", "2", "2Gi")
    m.run(1)
    assert m.pods["a"]["status"]["containerStatuses"][0]["restartCount"] == 1
    assert m.phase("a") == "Running"
