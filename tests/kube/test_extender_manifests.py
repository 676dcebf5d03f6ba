"""The manifests of deploy/extender/ match the extender."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.cli.main import app
from cotenant.drivers.http.address import Address
from cotenant.services.extender.metrics import VERBS

FOLDER = Path(__file__).parents[2] / "deploy" / "extender"


def documents(name: str) -> list[dict[str, Any]]:
    """The documents of a file, the configuration within the ConfigMap as one of its own."""
    found = list(yaml.safe_load_all((FOLDER / name).read_text()))
    return [
        yaml.safe_load(entry["data"]["scheduler.yaml"]) if entry["kind"] == "ConfigMap" else entry for entry in found
    ]


def of_kind(name: str, kind: str) -> dict[str, Any]:
    (found,) = (document for document in documents(name) if document["kind"] == kind)
    return found


@pytest.mark.parametrize("name", ["config.yaml", "scheduler-full-nodes.yaml"])
def test_the_configurations_use_the_served_verbs(name: str) -> None:
    (configuration,) = documents(name)
    assert configuration["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    (extender,) = configuration["extenders"]
    asked = {value for key, value in extender.items() if key.endswith("Verb")}
    assert {"filter", "prioritize"} <= asked <= set(VERBS)
    assert extender["nodeCacheCapable"] is (name == "config.yaml")
    assert Address.parse("urlPrefix", extender["urlPrefix"].split("//")[1]).is_loopback
    assert extender["urlPrefix"].startswith("https:") is bool(extender.get("tlsConfig"))
    assert isinstance(extender["ignorable"], bool)


def test_the_deployment_matches_the_configuration_and_the_command() -> None:
    deployment, service = of_kind("deployment.yaml", "Deployment"), of_kind("deployment.yaml", "Service")
    (configuration,) = documents("config.yaml")
    template = deployment["spec"]["template"]
    containers = {entry["name"]: entry for entry in template["spec"]["containers"]}
    arguments = dict(entry.removeprefix("--").partition("=")[::2] for entry in containers["extender"]["args"])
    _, bound, unused, *_ = app.parse_known_args(containers["extender"]["args"])  # every flag exists
    assert not unused
    assert bound.arguments["request"].cluster is True
    port = Address.parse("urlPrefix", configuration["extenders"][0]["urlPrefix"].split("//")[1]).port
    assert Address.parse("listen", arguments["listen"]).port == port
    assert port in {entry["containerPort"] for entry in containers["extender"]["ports"]}
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    for name, container in containers.items():
        mounted = {entry["mountPath"] for entry in container["volumeMounts"]}
        used = [value for value in arguments.values() if value.startswith("/")] if name == "extender" else []
        used += list(configuration["extenders"][0]["tlsConfig"].values()) if name == "kube-scheduler" else []
        assert used
        assert all(str(Path(path).parent) in mounted for path in used)
        assert {entry["name"] for entry in container["volumeMounts"]} <= {
            entry["name"] for entry in template["spec"]["volumes"]
        }


def test_the_role_grants_exactly_the_used_permissions() -> None:
    role = next(document for document in documents("rbac.yaml") if document["kind"] == "ClusterRole")
    granted = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert granted == {
        ("nodes", "list"),
        ("nodes", "watch"),
        ("pods", "list"),
        ("pods", "watch"),
        ("tokenreviews", "create"),
    }
    accounts = {
        (subject["kind"], subject["name"], subject["namespace"])
        for document in documents("rbac.yaml")
        for subject in document.get("subjects", ())
    }
    assert accounts == {("ServiceAccount", "cotenant-extended", "cotenant-system")}
