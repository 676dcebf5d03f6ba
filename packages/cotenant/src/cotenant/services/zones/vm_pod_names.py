"""What a zone's pod is called outside its machine.

Its requests are counted against objectives by the names in its spans, and the same zone may run on many nodes, so a
pod's name is not its own. Each start of a machine gives its pods a UID. The environment names pod, namespace and UID as
OpenTelemetry's SDKs read them (OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME), unless the image or the zone's file does.
"""

from __future__ import annotations

import uuid
from dataclasses import asdict

from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.zones.pods import ZonePod


def told_of(pod: ZonePod, zone: str, namespace: str) -> JsonObject:
    """What a zone's state says of a pod besides how it runs. `namespace`: "" is the zone's name."""
    return {
        "kind": pod.kind.value,
        "image": pod.image.archive,
        "ports": [asdict(port) for port in pod.ports],
        "namespace": namespace or zone,
        "fullName": f"{zone}-{pod.name}",
        "uid": str(uuid.uuid4()),
    }


def span_environment(name: str, told: JsonMapping) -> dict[str, str]:
    """What a pod's program is to say of itself in its spans. `told`: of `told_of`."""
    names = {
        "k8s.namespace.name": told["namespace"],
        "k8s.pod.name": told["fullName"],
        "k8s.pod.uid": told["uid"],
    }
    attributes = ",".join(f"{name}={value}" for name, value in names.items())
    return {"OTEL_RESOURCE_ATTRIBUTES": attributes, "OTEL_SERVICE_NAME": name}
