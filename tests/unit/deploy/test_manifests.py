"""The manifests in deploy/: security, availability and limits of every process, and arguments that its command
takes.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.unit.deploy.objects import DEPLOY, Obj, containers, everything, identity, pods, resources

from cotenant.cli.main import app

CONTROL = sorted(set(pods()) - {"cotenant-node"})
REPLICATED = ("cotenant-scheduler", "cotenant-manager", "cotenant-webhook", "cotenant-rebalancer")
SINGLE = ("cotenant-extended", "cotenant-traces", "cotenant-console", "cotenant-credit")  # what they know is in memory
BY_DEFAULT = {"cotenant-scheduler", "cotenant-manager", "cotenant-webhook", "cotenant-node"}


def of_kind(kind: str) -> dict[str, Obj]:
    return {entry["metadata"]["name"]: entry for entry in everything() if entry["kind"] == kind}


def test_the_parts_are_those_that_run() -> None:
    assert set(pods()) == {*REPLICATED, *SINGLE, "cotenant-node"}
    default = {
        resource["metadata"]["name"]
        for resource in resources(DEPLOY)
        if resource["kind"] in ("Deployment", "DaemonSet")
    }
    assert default == BY_DEFAULT


@pytest.mark.parametrize("page", ["deploy.md", "deploy.zh-CN.md"])
def test_the_guide_s_removal_without_helm_deletes_all_but_what_it_says_stays(page: str) -> None:
    """`kubectl delete -k deploy` would delete the kinds with their objects, and Koordinator's namespace."""
    lines = (DEPLOY.parent / "docs" / "guide" / page).read_text().splitlines()
    (loop,) = [line for line in lines if line.startswith("    for part in ")]
    folders = loop.partition(" in ")[2].partition(";")[0].split()
    (files,) = [line for line in lines if "kubectl delete" in line and "deploy/manager" in line]
    named = [DEPLOY.parent / word for word in files.split() if word.endswith(".yaml")]
    removed = {identity(entry) for folder in folders for entry in resources(DEPLOY / folder)}
    removed |= {identity(entry) for path in named for entry in yaml.safe_load_all(path.read_text()) if entry}
    stays = {
        identity(entry)
        for entry in resources(DEPLOY)
        if entry["kind"] in ("CustomResourceDefinition", "PriorityClass")
        or (entry["kind"] == "Namespace" and entry["metadata"]["name"] != "cotenant-node")
    }
    assert removed == {identity(entry) for entry in resources(DEPLOY)} - stays


@pytest.mark.parametrize("name", sorted(pods()))
def test_a_command_takes_the_arguments_of_its_container(name: str) -> None:
    ours = [container for container in containers(pods()[name]) if container["name"] != "kube-scheduler"]
    assert ours
    for our in ours:
        assert "command" not in our  # the image's entry point is `cotenant`
        _, _, unused, *_ = app.parse_known_args(our["args"])
        assert not unused
        assert "--log-format=json" in our["args"]


@pytest.mark.parametrize("name", CONTROL)
def test_the_control_plane_keeps_to_the_restricted_level(name: str) -> None:
    """Kubernetes, "Pod Security Standards", level restricted."""
    pod = pods()[name]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    allowed = {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
    assert all(set(volume) - {"name"} <= allowed for volume in pod["volumes"])
    for container in containers(pod):
        security = container["securityContext"]
        assert security["allowPrivilegeEscalation"] is False
        assert security["capabilities"] == {"drop": ["ALL"]}
        assert "hostPort" not in str(container.get("ports", ""))


@pytest.mark.parametrize("name", sorted(pods()))
def test_every_container_has_a_read_only_root_and_limits(name: str) -> None:
    for container in containers(pods()[name]):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"cpu", "memory"} <= set(container["resources"]["requests"])
        assert "memory" in container["resources"]["limits"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= {v["name"] for v in pods()[name]["volumes"]}
    for volume in pods()[name]["volumes"]:
        assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": ""}), volume


@pytest.mark.parametrize("name", sorted(pods()))
def test_every_process_is_probed_on_a_port_that_it_has(name: str) -> None:
    for container in containers(pods()[name]):
        if container["name"] in ("kube-scheduler", "keeper"):  # upstream's; the keeper's socket is its startup probe
            continue
        ports: dict[Any, int] = {port["name"]: port["containerPort"] for port in container.get("ports", ())}
        for probe in ("livenessProbe", "readinessProbe"):
            http = container[probe]["httpGet"]
            assert http["path"] == {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}[probe]
            assert http["port"] in ports or http["host"] == "127.0.0.1"
        listens = [
            a.partition("=")[2]
            for a in container["args"]
            if a.startswith(("--listen=", "--health-listen=", "--http=", "--grpc="))
        ]
        assert {int(address.rpartition(":")[2]) for address in listens} == set(ports.values())


@pytest.mark.parametrize("name", REPLICATED)
def test_replicas_are_two_and_apart_and_one_stays(name: str) -> None:
    spec = of_kind("Deployment")[name]["spec"]
    assert spec["replicas"] == 2
    keys = [entry["topologyKey"] for entry in spec["template"]["spec"]["topologySpreadConstraints"]]
    assert keys == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert of_kind("PodDisruptionBudget")[name]["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", CONTROL)
def test_ingress_and_egress_of_the_control_plane_are_limited(name: str) -> None:
    policy = of_kind("NetworkPolicy")[name]["spec"]
    labels = of_kind("Deployment")[name]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    ports = {port["containerPort"] for pod in pods()[name]["containers"] for port in pod.get("ports", ())}
    for rule in policy["ingress"]:
        assert rule["from"]
        assert {entry["port"] for entry in rule["ports"]} <= ports
    assert all(rule["ports"] for rule in policy["egress"])


def test_services_reach_ports_that_exist() -> None:
    for service in of_kind("Service").values():
        selector = service["spec"]["selector"]
        (found,) = (
            entry
            for entry in of_kind("Deployment").values()
            if selector.items() <= entry["spec"]["template"]["metadata"]["labels"].items()
        )
        names = {p["name"] for c in found["spec"]["template"]["spec"]["containers"] for p in c.get("ports", ())}
        assert {entry["targetPort"] for entry in service["spec"]["ports"]} <= names


def test_monitors_select_services_and_their_ports() -> None:
    services = list(of_kind("Service").values())
    monitors = of_kind("ServiceMonitor")
    assert set(monitors) == set(CONTROL)
    for monitor in monitors.values():
        labels = monitor["spec"]["selector"]["matchLabels"]
        (service,) = (entry for entry in services if labels.items() <= entry["metadata"]["labels"].items())
        assert {e["port"] for e in monitor["spec"]["endpoints"]} <= {p["name"] for p in service["spec"]["ports"]}


def test_namespaces_have_the_level_that_their_pods_need() -> None:
    levels = {
        name: entry["metadata"].get("labels", {}).get("pod-security.kubernetes.io/enforce")
        for name, entry in of_kind("Namespace").items()
    }
    assert levels == {"cotenant-system": "restricted", "cotenant-node": "privileged", "koordinator-system": None}
    spaces = {identity(entry)[1] for entry in everything() if entry["kind"] == "Deployment"}
    assert spaces == {"cotenant-system"}


def test_every_account_that_is_bound_exists() -> None:
    accounts = {identity(entry)[1:] for entry in everything() if entry["kind"] == "ServiceAccount"}
    for entry in everything():
        for subject in entry.get("subjects", ()):
            assert (subject["namespace"], subject["name"]) in accounts


def test_reports_are_accepted_from_the_agents_account_only() -> None:
    ((_, namespace, name),) = (
        identity(entry)
        for entry in everything()
        if entry["kind"] == "ServiceAccount" and "node" in entry["metadata"]["name"]
    )
    for workload, container in (("cotenant-scheduler", "scheduler"), ("cotenant-extended", "extender")):
        (found,) = (entry for entry in containers(pods()[workload]) if entry["name"] == container)
        assert f"--report-account={namespace}/{name}" in found["args"]
