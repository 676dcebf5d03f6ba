"""Every object of deploy/ fits the published schema of its kind, without unknown fields (kubernetes-validate)."""

from __future__ import annotations

import kubernetes_validate
import pytest
from tests.unit.deploy.objects import Obj, everything, identity

VERSION = "1.33"
FOREIGN = {
    "CustomResourceDefinition",
    "ServiceMonitor",
    "PrometheusRule",
}  # our kinds are tested in tests/kube; the rest are the Prometheus Operator's
OBJECTS = [entry for entry in everything() if entry["kind"] not in FOREIGN]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda entry: "-".join(identity(entry)))
def test_an_object_fits_its_schema(obj: Obj) -> None:
    kubernetes_validate.validate(obj, VERSION, strict=True)


def test_a_field_that_does_not_exist_is_found() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}, "automount": False},
            VERSION,
            strict=True,
        )
