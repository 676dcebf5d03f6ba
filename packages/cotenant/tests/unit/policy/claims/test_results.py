"""The allocation that is stored with a claim: its devices, from where they can be used, and their settings."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.claims.claim import NO_SHARE, AllocatedConfiguration
from cotenant.model.claims.devices import DeviceId, OfferedDevice, PoolId, Reach
from cotenant.model.claims.requests import ClaimRequest, ClaimSpec, DeviceClass, DeviceConfiguration, ExactRequest
from cotenant.model.cluster.affinity import NAME_FIELD, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import Requirement, SelectorOperator
from cotenant.policy.claims.allocator import Pick
from cotenant.policy.claims.pools import DevicePool, PoolDevice
from cotenant.policy.claims.results import allocation_of, nodes_of

EVERYWHERE = Reach(all=True)
ZONE, RACK = (Requirement(key, SelectorOperator.IN, ("a",)) for key in ("zone", "rack"))
FIELD = Requirement(NAME_FIELD, SelectorOperator.IN, ("n1",))


def device(name: str, reach: Reach = EVERYWHERE, **more: Any) -> PoolDevice:
    return PoolDevice(DeviceId("d", "p", name), OfferedDevice(name, **more), reach, ())


def selected(*expressions: Requirement, fields: tuple[Requirement, ...] = ()) -> Reach:
    return Reach(selector=NodeSelector((NodeSelectorTerm(expressions, fields),)))


def only(node: str) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm(fields=(Requirement(NAME_FIELD, SelectorOperator.IN, (node,)),)),))


@pytest.mark.parametrize(
    ("devices", "nodes"),
    [
        ((), None),
        ((device("x"), device("y")), None),
        ((device("x"), device("y", Reach("n1"))), only("n1")),
        ((device("x", binds_to_node=True),), only("n1")),
        ((device("x", selected(ZONE)), device("y", Reach("n1"))), only("n1")),
        ((device("x", selected(ZONE)), device("y")), NodeSelector((NodeSelectorTerm((ZONE,)),))),
        (
            (device("x", selected(ZONE)), device("y", selected(ZONE, RACK, fields=(FIELD,)))),
            NodeSelector((NodeSelectorTerm((ZONE, RACK), (FIELD,)),)),
        ),
    ],
)
def test_a_claim_can_be_used_from_where_all_its_devices_can(
    devices: tuple[PoolDevice, ...], nodes: NodeSelector | None
) -> None:
    assert nodes_of(devices, "n1") == nodes


def exact(full: str, of_class: str = "gpu", **more: Any) -> ExactRequest:
    parent, _, name = full.rpartition("/")
    return ExactRequest(name=name, parent=parent, device_class=of_class, **more)


def test_each_device_is_stored_with_its_request_and_a_share_only_where_it_is_shared() -> None:
    whole = device("whole", binding_conditions=("Ready",), failure_conditions=("Broken",))
    shared = device("shared", is_shared=True)
    pools = (DevicePool(PoolId("d", "o")), DevicePool(PoolId("d", "p"), devices=(whole, shared)))
    one, admin = exact("one"), exact("two", admin_access=True)
    picks = (Pick(one, (1, 0)), Pick(admin, (1, 1)))
    claim = ClaimSpec((ClaimRequest("one", (one,)), ClaimRequest("two", (admin,))))
    found = allocation_of(claim, picks, pools, "n1", {}, lambda position: f"share-{position}")
    assert [(given.request, given.id.device, given.has_admin_access, given.share) for given in found.devices] == [
        ("one", "whole", False, NO_SHARE),
        ("two", "shared", True, "share-1"),
    ]
    assert (found.devices[0].binding_conditions, found.devices[0].failure_conditions) == (("Ready",), ("Broken",))
    assert (found.nodes, found.configurations) == (None, ())


def test_settings_are_those_of_the_classes_then_those_of_the_claim() -> None:
    first, second, third = exact("a"), exact("b", "nic"), exact("c")
    chosen, other = exact("list/small", "mig"), exact("list/big", "gpu")
    claim = ClaimSpec(
        (
            ClaimRequest("a", (first,)), ClaimRequest("b", (second,)), ClaimRequest("c", (third,)),
            ClaimRequest("list", (other, chosen), is_list=True),
        ),
        configurations=(
            DeviceConfiguration("all"), DeviceConfiguration("of a", ("a",)), DeviceConfiguration("of list", ("list",)),
            DeviceConfiguration("of big", ("list/big",)), DeviceConfiguration("of small", ("list/small",)),
        ),
    )  # fmt: skip
    pools = (DevicePool(PoolId("d", "p"), devices=(device("x"),)),)
    picks = tuple(Pick(request, (0, 0)) for request in (first, second, third, chosen))
    classes = {
        "gpu": DeviceClass("gpu", configurations=(DeviceConfiguration("g1"), DeviceConfiguration("g2"))),
        "mig": DeviceClass("mig", configurations=(DeviceConfiguration("m"),)),
    }
    found = allocation_of(claim, picks, pools, "n1", classes, lambda _: "")
    assert found.configurations == (
        AllocatedConfiguration(True, "g1", ("a", "c")),
        AllocatedConfiguration(True, "g2", ("a", "c")),
        AllocatedConfiguration(True, "m", ("list/small",)),
        AllocatedConfiguration(False, "all"),
        AllocatedConfiguration(False, "of a", ("a",)),
        AllocatedConfiguration(False, "of list", ("list",)),
        AllocatedConfiguration(False, "of small", ("list/small",)),
    )
