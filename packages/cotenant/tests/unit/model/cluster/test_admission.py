from __future__ import annotations

import pytest

from cotenant.model.cluster.admission import AdmissionOperation, Declared, admit
from cotenant.model.cluster.qos import PriorityClass, QoSClass
from cotenant.model.resources import BATCH_MEMORY, Amounts


def rules(new: Declared, old: Declared | None = None, skip: bool = False) -> list[str]:
    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    return [violation.rule for violation in admit(operation, new, old, skip)]


def pod(qos: str = "", band: str = "", cpu: int = 0, sub: str | None = None, **other: int) -> Declared:
    return Declared(QoSClass(qos), PriorityClass(band), sub, Amounts.of({"cpu": cpu, **other}))


@pytest.mark.parametrize("band", ["mid", "batch", "free"])
def test_best_effort_needs_a_band_below_production(band: str) -> None:
    assert rules(pod("BE", band)) == []
    assert rules(pod("BE", "prod")) == rules(pod("BE")) == ["BE-requires-mid-batch-or-free"]


def test_pinned_pods_need_production_and_whole_cpus() -> None:
    assert rules(pod("LSR", "prod", 2000)) == rules(pod("LSE", "prod", 1000)) == []
    assert rules(pod("LSR", "", 1000)) == ["LSR-requires-prod"]
    assert rules(pod("LSR", "prod", 0)) == rules(pod("LSE", "prod", 1500)) == ["LSR-LSE-need-integer-cpus"]
    assert rules(pod("LSE", "mid", 1000)) == ["LSE-requires-prod"]  # upstream has no rule for LSE


def test_batch_resources_are_for_best_effort() -> None:
    batch = Amounts.of({BATCH_MEMORY: 1})
    for qos in (QoSClass.LS, QoSClass.NONE, QoSClass.SYSTEM):
        assert rules(Declared(qos, PriorityClass.BATCH, None, batch)) == ["batch-resources-need-BE"]
    assert rules(Declared(QoSClass.BE, PriorityClass.BATCH, None, batch)) == []
    assert rules(Declared(QoSClass.LS, PriorityClass.BATCH, None, Amounts.of({BATCH_MEMORY: 0}))) == []


def test_every_violated_rule_is_returned() -> None:
    new, old = pod("LSR", "mid", 500, sub="1"), pod("LS", "prod", 500, sub="2")
    assert rules(new, old) == [
        "qos-immutable",
        "priority-class-immutable",
        "sub-priority-immutable",
        "LSR-requires-prod",
        "LSR-LSE-need-integer-cpus",
    ]
    assert "sub-priority-immutable" not in rules(new, old, skip=True)
    assert all(len(v.message) > 20 for v in admit(AdmissionOperation.UPDATE, new, old))


def test_an_update_that_keeps_everything_is_allowed() -> None:
    same = pod("LS", "prod", 500, sub="3")
    assert rules(same, same) == []
    assert rules(pod("LS", "prod", sub=""), pod("LS", "prod", sub=None)) == []


def test_an_update_needs_the_old_pod() -> None:
    with pytest.raises(ValueError, match="old pod"):
        admit(AdmissionOperation.UPDATE, pod())
