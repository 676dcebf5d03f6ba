"""Which class of devices stands for an extended resource."""

from __future__ import annotations

from cotenant.engine.rules.claims.pods import class_for
from cotenant.model.claims.requests import EXTENDED_PREFIX, DeviceClass


def test_the_class_that_names_the_resource_or_is_named_by_it_the_newest_first() -> None:
    old, new = (
        DeviceClass("old", extended_resource="x/gpu"),
        DeviceClass("new", extended_resource="x/gpu", created_s=5.0),
    )
    twin, other = DeviceClass("a-twin", extended_resource="x/gpu", created_s=5.0), DeviceClass("gpu")
    assert class_for("x/gpu", [old]) == "old"
    assert class_for("x/gpu", [old, new, other]) == "new"
    assert class_for("x/gpu", [new, twin]) == "a-twin"
    assert class_for("x/none", [old, other]) == ""
    assert class_for(f"{EXTENDED_PREFIX}gpu", [old, other]) == "gpu"
    assert class_for("gpu", [other]) == ""  # a class's name alone is no resource
    assert class_for(EXTENDED_PREFIX, [other, DeviceClass("")]) == ""
