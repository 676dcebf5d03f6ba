from typing import Any

from tests.fakes.processes.plain_cluster import PlainCluster, template

from cotenant_local.controllers.runtime.actions import DAEMON_SETS, NODES, PODS, REVISIONS, Plan
from cotenant_local.controllers.workloads.daemonset import reconcile
from cotenant_local.controllers.workloads.scheduling import pinned_node

NOW = 1_800_000_000.0


class Daemons:
    def __init__(self, nodes: int = 3, pod: dict[str, Any] | None = None, **spec: Any) -> None:
        self.c = PlainCluster(NOW)
        body = {"selector": {"matchLabels": {"app": "web"}}, "template": template(**(pod or {})), **spec}
        self.c.put(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": body})
        for i in range(nodes):
            self.node(f"n{i}")

    def node(self, name: str, **spec: Any) -> None:
        labels = {"kubernetes.io/hostname": name, "disk": "ssd" if name == "n0" else "hdd"}
        self.c.put(NODES, {"metadata": {"name": name, "namespace": "", "labels": labels}, "spec": spec})

    def plan(self) -> Plan:
        ds = self.c.view(DAEMON_SETS, "agent")
        return reconcile(ds, self.c.views(PODS), self.c.views(NODES), self.c.views(REVISIONS), self.c.now_s)

    def settle(self) -> None:
        for _ in range(50):
            self.c.converge(self.plan, limit=20)
            moved = self.c.end_terminating()
            for pod in self.c.views(PODS):
                if not pod.status.phase:
                    self.c.edit(PODS, pod.metadata.name, {"spec": {"nodeName": pinned_node(pod.spec)}})
                    self.c.kubelet(pod.metadata.name)
                    moved += 1
            if not moved:
                return
        raise AssertionError("did not settle")

    def where(self) -> list[str]:
        return sorted(pinned_node(p.spec) for p in self.c.views(PODS) if p.active)

    def images(self) -> list[str]:
        return sorted(
            self.c.objects[(PODS, "default", p.metadata.name)]["spec"]["containers"][0]["image"]
            for p in self.c.views(PODS)
        )


def test_one_pod_per_node_is_pinned_by_affinity_instead_of_node_name() -> None:
    agent = Daemons()
    agent.c.converge(agent.plan)
    assert agent.where() == ["n0", "n1", "n2"]
    pod = next(o for k, o in agent.c.objects.items() if k[0] == PODS)
    assert "nodeName" not in pod["spec"]
    keys = {t["key"] for t in pod["spec"]["tolerations"]}
    assert "node.kubernetes.io/unschedulable" in keys


def test_a_selector_and_every_affinity_term_are_kept() -> None:
    terms = [
        {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
        {"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]},
    ]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    agent = Daemons(pod={"affinity": affinity})
    agent.c.converge(agent.plan)
    assert agent.where() == ["n0"]
    pod = next(o for k, o in agent.c.objects.items() if k[0] == PODS)
    written = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert [t["matchFields"][0]["values"] for t in written] == [["n0"], ["n0"]]
    assert written[0]["matchExpressions"] == terms[0]["matchExpressions"]


def test_new_nodes_get_a_pod_and_duplicates_are_deleted() -> None:
    agent = Daemons(1)
    agent.settle()
    agent.node("n9")
    agent.settle()
    assert agent.where() == ["n0", "n9"]
    copy = next(o for k, o in agent.c.objects.items() if k[0] == PODS)
    meta = {k: copy["metadata"][k] for k in ("labels", "ownerReferences")}
    agent.c.put(PODS, {"metadata": {**meta, "name": "double"}, "spec": copy["spec"], "status": {"phase": "Running"}})
    agent.settle()
    assert agent.where() == ["n0", "n9"]


def test_taints_prevent_new_pods_and_only_noexecute_evicts() -> None:
    agent = Daemons(2)
    agent.settle()
    agent.c.edit(NODES, "n0", {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, "")
    agent.node("n5", taints=[{"key": "k", "effect": "NoSchedule"}])
    agent.settle()
    assert agent.where() == ["n0", "n1"]
    agent.c.edit(NODES, "n0", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, "")
    agent.settle()
    assert agent.where() == ["n1"]
    unreachable = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
    agent.c.edit(NODES, "n1", {"spec": {"taints": unreachable}}, "")
    agent.settle()
    assert agent.where() == ["n1"]


def test_a_rolling_update_replaces_max_unavailable_pods_at_a_time() -> None:
    agent = Daemons(4, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}})
    agent.settle()
    agent.c.edit(DAEMON_SETS, "agent", {"spec": {"template": template(image="image:2")}})
    agent.c.converge(agent.plan, limit=20)
    assert len(agent.where()) == 2
    agent.settle()
    assert agent.images() == ["image:2"] * 4
    status = agent.c.view(DAEMON_SETS, "agent").status
    assert (status.desired_number_scheduled, status.updated_number_scheduled, status.number_available) == (4, 4, 4)


def test_on_delete_keeps_old_pods() -> None:
    agent = Daemons(2, updateStrategy={"type": "OnDelete"})
    agent.settle()
    agent.c.edit(DAEMON_SETS, "agent", {"spec": {"template": template(image="image:2")}})
    agent.settle()
    assert agent.images() == ["image:1", "image:1"]


def test_a_failed_pod_is_recreated_after_a_delay() -> None:
    agent = Daemons(1)
    agent.settle()
    agent.c.kubelet(agent.c.views(PODS)[0].metadata.name, "Failed")
    assert agent.plan().requeue_at_s == NOW + 5
    agent.c.now_s += 6
    agent.settle()
    assert agent.where() == ["n0"]
