"""What a container is told of itself."""

from __future__ import annotations

from collections.abc import Mapping

from cotenant.model.fleet.group import PlannedContainer
from cotenant.model.fleet.template import ContainerTemplate
from cotenant.services.fleet.functions.labels import environment_of


def given(said: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    return environment_of(PlannedContainer("web-1", "agent-a", ContainerTemplate("web", "x", environment=said)), ours)


def test_its_guid_is_the_instance_of_its_telemetry() -> None:
    assert given({"A": "1"}, {"A": "0", "JAEGER_AGENT_HOST": "172.17.0.1"}) == {
        "A": "1",
        "JAEGER_AGENT_HOST": "172.17.0.1",
        "COTENANT_GUID": "web-1",
        "OTEL_SERVICE_NAME": "web",
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=web-1",
    }


def test_attributes_of_the_file_and_of_the_host_are_joined_with_it() -> None:
    attributes = given(
        {"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test, zone=b"},
        {"OTEL_RESOURCE_ATTRIBUTES": "host.name=h,zone=a"},
    )["OTEL_RESOURCE_ATTRIBUTES"]
    assert attributes == "host.name=h,zone=b,service.instance.id=web-1,deployment.environment=test"
    own = given({"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=mine"}, {})
    assert own["OTEL_RESOURCE_ATTRIBUTES"] == "service.instance.id=mine"
