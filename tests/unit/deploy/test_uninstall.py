"""What `helm uninstall` does: withdraw, end the agents, clear up; and what it leaves. Needs helm; skipped where
there is none.
"""

from __future__ import annotations

from typing import Any

from tests.fakes.command_options import options
from tests.unit.deploy.chart import helm_only, objects
from tests.unit.deploy.objects import Identity, Obj

from cotenant.cli.main import app

SYSTEM, NODE = "cotenant-system", "cotenant-node"
pytestmark = helm_only


def job(name: str, *arguments: str) -> tuple[Obj, dict[str, Any]]:
    """A Job, and what its arguments mean to the command."""
    found = objects(*arguments)["Job", SYSTEM, name]
    (container,) = found["spec"]["template"]["spec"]["containers"]
    command, bound, unused, *_ = app.parse_known_args(container["args"])
    assert not unused
    assert command.__name__ == "withdraw"
    assert options(bound)["within_s"] < found["spec"]["activeDeadlineSeconds"]
    return found, options(bound)


def hook(obj: Obj) -> tuple[str, int]:
    annotations = obj["metadata"]["annotations"]
    return annotations["helm.sh/hook"], int(annotations["helm.sh/hook-weight"])


def test_it_begins_with_what_the_parts_gave_and_ends_with_what_they_made() -> None:
    first, asked = job("cotenant-uninstall")
    assert (asked["webhooks"], asked["config"]) == ("cotenant-webhook", "koordinator-system/slo-controller-config")
    assert asked["agents"] == "cotenant-node/cotenant-node"
    assert asked["priority_class"] == ("koord-batch", "koord-free", "koord-mid", "koord-prod")
    folders, waits = job("cotenant-uninstall-folders")
    assert waits["swept"] == "cotenant-node/cotenant-uninstall-folders"
    last, clears = job("cotenant-uninstall-leftovers")
    assert clears["spare"] == last["spec"]["template"]["metadata"]["labels"]["app"]
    daemons = objects()["DaemonSet", NODE, "cotenant-uninstall-folders"]
    assert [hook(entry) for entry in (first, daemons, folders, last)] == [
        ("pre-delete", 1),
        ("pre-delete", 2),
        ("pre-delete", 3),
        ("post-delete", 1),
    ]
    made = [entry for entry in objects().values() if "helm.sh/hook" in entry["metadata"].get("annotations", {})]
    assert all(entry["metadata"]["name"].startswith("cotenant-uninstall") for entry in made)
    assert all("hook-succeeded" in entry["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for entry in made)


def test_leases_and_secrets_of_every_part_are_named() -> None:
    """By the roles that let a part make them."""
    _, clears = job("cotenant-uninstall-leftovers", "--set=scheduler.names={fast=founding,cotenant}")
    everything = ("extender", "rebalancer", "credit", "traces", "console")
    made = objects(
        "--set=scheduler.names={fast=founding,cotenant}", *(f"--set={part}.enabled=true" for part in everything)
    )
    for resource, option in (("leases", "lease"), ("secrets", "secret")):
        names = {
            name
            for (kind, namespace, role), obj in made.items()
            if kind == "Role" and namespace == SYSTEM and not role.startswith("cotenant-uninstall")
            for rule in obj["rules"]
            if resource in rule["resources"]
            for name in rule.get("resourceNames", ())
        }
        assert set(clears[option]) == names


def test_a_folder_of_the_host_is_removed_where_the_keeper_keeps_it() -> None:
    spec = objects()["DaemonSet", NODE, "cotenant-uninstall-folders"]["spec"]["template"]["spec"]
    (container,) = spec["initContainers"]
    _, bound, unused, *_ = app.parse_known_args(container["args"])
    assert not unused
    (mount,) = container["volumeMounts"]
    (volume,) = spec["volumes"]
    folder = options(bound)["folder"]
    assert str(folder.parent) == mount["mountPath"]
    keeper = objects()["DaemonSet", NODE, "cotenant-node"]["spec"]["template"]["spec"]
    paths = {entry["hostPath"]["path"] for entry in keeper["volumes"] if entry["name"] == "state"}
    assert paths == {f"{volume['hostPath']['path']}/{folder.name}"}
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "serviceAccountName" not in spec


def test_what_stays_can_be_chosen() -> None:
    _, asked = job("cotenant-uninstall", "--set=uninstall.stopLending=false,uninstall.priorityClasses=keep")
    assert asked["config"] == ""
    assert "priority_class" not in asked
    names = {name for _, _, name in objects("--set=uninstall.leftovers=false")}
    assert "cotenant-uninstall" in names
    assert not {"cotenant-uninstall-folders", "cotenant-uninstall-leftovers"} & names
    off = {name for _, _, name in objects("--set=uninstall.enabled=false")}
    assert not any(name.startswith("cotenant-uninstall") for name in off)


def test_helm_leaves_priority_classes_to_the_job() -> None:
    """One that a pod names must outlive the release."""
    classes = [entry for (kind, _, _), entry in objects().items() if kind == "PriorityClass"]
    assert {entry["metadata"]["annotations"]["helm.sh/resource-policy"] for entry in classes} == {"keep"}
    _, asked = job("cotenant-uninstall")
    assert {entry["metadata"]["name"] for entry in classes} == set(asked["priority_class"])
    _, without = job("cotenant-uninstall", "--set=priorityClasses.create=false")
    assert "priority_class" not in without


def test_every_role_is_in_a_namespace_that_is_there_at_that_time() -> None:
    """The release's own namespaces are gone when it ends."""
    kept: dict[Identity, Obj] = objects("--set=node.createNamespace=false")
    for made, allowed in ((objects(), {SYSTEM}), (kept, {SYSTEM, NODE})):
        late = {
            namespace
            for (kind, namespace, _), entry in made.items()
            if "post-delete" in entry["metadata"].get("annotations", {}).get("helm.sh/hook", "") and namespace
        }
        assert late == allowed
