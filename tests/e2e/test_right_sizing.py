"""`cotenant up --manager --right-sizing`: a service that requests three times its use is made smaller in place, one
replica first; one whose objective burns then gets back what it had.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.manifests import deployment, is_running
from tests.e2e.running import Client, Up, eventually, run

from cotenant.drivers.kube.kinds.custom.right_sizing import read_status
from cotenant.model.sizes.right_sizing import SizingPhase

pytestmark = pytest.mark.slow

SLO = "/apis/slo.cotenant.io/v1alpha1/namespaces/default"
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    options = ("--nodes", 2, "--ephemeral", "--manager", "--right-sizing", "--speed", 120)
    with Up(tmp_path_factory.mktemp("sized") / "up", *options) as running:
        running.ready()
        yield running


def _requests(api: Client, app: str) -> list[str]:
    pods = [pod for pod in api.items(PODS, labelSelector=f"app={app}") if is_running(pod)]
    return sorted(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods)


def _given(api: Client, app: str) -> list[str]:
    """What kubelets say that the containers have."""
    pods = api.items(PODS, labelSelector=f"app={app}")
    statuses = [pod["status"]["containerStatuses"][0] for pod in pods if is_running(pod)]
    return sorted(status.get("allocatedResources", {}).get("cpu", "as made") for status in statuses)


def _sizing(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"workload": {"name": name}, "minHistory": "5s", "proof": "4s", "patience": "60s", **spec}
    return {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "RightSizing",
        "metadata": {"name": name},
        "spec": spec,
    }


def _receipts(api: Client, name: str) -> list[Any]:
    found: list[Any] = api.get(f"{SLO}/rightsizings/{name}").get("status", {}).get("receipts", [])
    return found


def _resized(api: Client, app: str, since: str) -> list[int]:
    """At which version each of its pods got another size. By a watch: how long one of them is the only one is nothing
    that a case can wait for.
    """
    found: dict[str, int] = {}
    for change in api.changes(PODS, since):
        meta, (container,) = change["object"]["metadata"], change["object"]["spec"]["containers"]
        if meta["labels"].get("app") == app and container["resources"]["requests"]["cpu"] != "3":
            found.setdefault(meta["uid"], int(meta["resourceVersion"]))
    return sorted(found.values())


def _proofs(api: Client, name: str, since: str) -> list[int]:
    """The versions at which its first replica was watched."""
    changes = [change["object"] for change in api.changes(f"{SLO}/rightsizings", since)]
    stored = [(obj["metadata"], read_status(obj.get("status"))) for obj in changes if obj["metadata"]["name"] == name]
    return [
        int(meta["resourceVersion"])
        for meta, status in stored
        if status.change is not None and status.change.phase is SizingPhase.PROOF
    ]


def test_a_service_three_times_too_large_is_suggested_approved_proven_and_made_smaller(up: Up) -> None:
    api = Client(up.kubeconfig)
    api.create("/apis/apps/v1/namespaces/default/deployments", deployment("wide", 3, cpu="3"))
    eventually("three replicas run", lambda: _requests(api, "wide") == ["3"] * 3, 60.0)
    uids = {pod["metadata"]["uid"] for pod in api.items(PODS, labelSelector="app=wide")}
    api.create(f"{SLO}/rightsizings", _sizing("wide", mode="approve"))

    def suggested() -> Any:
        status = api.get(f"{SLO}/rightsizings/wide").get("status", {})
        return status.get("suggestion") if status.get("state") == "awaitsApproval" else None

    suggestion = eventually("a size is suggested", suggested, 90.0)
    assert suggestion["before"]["cpuRequestM"] == 3000
    assert 900 <= suggestion["after"]["cpuRequestM"] <= 1600  # it uses about a third
    assert _requests(api, "wide") == ["3"] * 3  # nothing without approval
    since = api.get(PODS)["metadata"]["resourceVersion"]

    def receipts() -> list[Any]:
        """Of a change that was approved: of whichever size stands, since one found later, from more than the first
        seconds, needs an approval of its own.
        """
        wide = api.get(f"{SLO}/rightsizings/wide")
        status, stands = wide["status"], wide["status"].get("suggestion") or {}
        if status.get("state") == "awaitsApproval" and stands.get("id") != wide["spec"].get("approved"):
            run("receipts", "approve", "default/wide", "--by", "ada", "--kubeconfig", up.kubeconfig)
        return _receipts(api, "wide")

    receipt = eventually("the change has a receipt", receipts, 180.0)[0]
    assert (receipt["outcome"], receipt["allowedBy"]) == ("done", "spec.approved, ada")
    first, second, _ = _resized(api, "wide", since)
    assert any(first < at < second for at in _proofs(api, "wide", since)), "one replica is proven before the others"
    smaller = _requests(api, "wide")
    assert len(set(smaller)) == 1
    assert "3" not in smaller
    assert _given(api, "wide") == smaller
    assert {pod["metadata"]["uid"] for pod in api.items(PODS, labelSelector="app=wide")} == uids  # in place
    template = api.get("/apis/apps/v1/namespaces/default/deployments/wide")["spec"]["template"]
    assert template["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "3"
    listed = json.loads(run("receipts", "--json", "--kubeconfig", up.kubeconfig).stdout)
    assert [row["receipts"][0]["outcome"] for row in listed if row["sizing"] == "default/wide"] == ["done"]
    undone = run("receipts", "undo", "default/wide", receipt["id"], "--kubeconfig", up.kubeconfig)
    assert undone.returncode == 0, undone.stderr
    eventually("every replica has what it had", lambda: _requests(api, "wide") == ["3"] * 3, 60.0)
    eventually("and a receipt says so", lambda: _receipts(api, "wide")[0]["outcome"] == "undone", 60.0)


def test_a_shrink_that_hurts_is_taken_back_with_a_receipt(up: Up) -> None:
    api = Client(up.kubeconfig)
    api.create("/apis/apps/v1/namespaces/default/deployments", deployment("tight", 2, cpu="3"))
    objective = {
        "apiVersion": "slo.cotenant.io/v1alpha1",
        "kind": "ServiceObjective",
        "metadata": {"name": "fast"},
        "spec": {"service": {"name": "tight"}, "indicator": {"latency": {"below": "100ms"}}, "target": "99"},
    }
    api.create(f"{SLO}/serviceobjectives", objective)
    api.patch(f"{SLO}/serviceobjectives/fast/status", {"status": {"state": "ok"}})
    eventually("two replicas run", lambda: _requests(api, "tight") == ["3"] * 2, 60.0)
    api.create(f"{SLO}/rightsizings", _sizing("tight", mode="act", objective="fast", proof="20s"))
    eventually("one replica is resized", lambda: _requests(api, "tight").count("3") == 1, 120.0)
    api.patch(f"{SLO}/serviceobjectives/fast/status", {"status": {"state": "burning"}})
    receipt = eventually("the change has a receipt", lambda: _receipts(api, "tight"), 60.0)[0]
    assert (receipt["outcome"], receipt["why"]) == ("undone", "objective fast burns")
    assert receipt["allowedBy"] == "mode act"
    assert _requests(api, "tight") == ["3"] * 2
    shown = run("receipts", "--kubeconfig", up.kubeconfig).stdout
    assert "objective fast burns; 1 pod; allowed by mode act" in shown


def test_a_freeze_stops_it_and_a_thaw_lets_it_go_on(up: Up) -> None:
    api = Client(up.kubeconfig)
    frozen = run("freeze", "--why", "outage", "--by", "ada", "--action", "sizes", "--kubeconfig", up.kubeconfig)
    assert (frozen.returncode, frozen.stderr) == (0, "")
    api.create("/apis/apps/v1/namespaces/default/deployments", deployment("held", 2, cpu="3"))
    eventually("two replicas run", lambda: _requests(api, "held") == ["3"] * 2, 60.0)
    api.create(f"{SLO}/rightsizings", _sizing("held", mode="act"))

    def waits() -> bool:
        return "frozen by ada: outage" in api.get(f"{SLO}/rightsizings/held").get("status", {}).get("message", "")

    eventually("it says that it is frozen", waits, 120.0)
    assert _requests(api, "held") == ["3"] * 2
    listed = json.loads(run("autonomy", "--json", "--kubeconfig", up.kubeconfig).stdout)
    assert [(row["name"], row["actions"], row["freeze"]["by"]) for row in listed["objects"]] == [
        ("freeze", ["sizes"], "ada")
    ]
    again = run("freeze", "--why", "still", "--by", "bob", "--kubeconfig", up.kubeconfig)
    assert again.returncode == 0, again.stderr
    assert "by bob: still" in run("autonomy", "--kubeconfig", up.kubeconfig).stdout
    assert "thawed" in run("thaw", "--kubeconfig", up.kubeconfig).stdout
    assert "nothing was frozen" in run("thaw", "--kubeconfig", up.kubeconfig).stdout
    eventually("it goes on", lambda: _receipts(api, "held"), 180.0)


def test_a_freeze_without_a_reason_and_of_an_unknown_kind_is_refused(up: Up) -> None:
    for words in (("--why", " "), ("--why", "x", "--action", "sleep")):
        refused = run("freeze", *words, "--kubeconfig", up.kubeconfig)
        assert refused.returncode == 2, refused.stdout
        assert words[-2] in refused.stderr
