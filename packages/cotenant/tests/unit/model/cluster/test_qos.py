from __future__ import annotations

import pytest

from cotenant.model.cluster.qos import (
    BANDS,
    KubernetesQoS,
    PriorityClass,
    QoSClass,
    class_of_label,
    class_of_priority,
    effective_class,
    effective_qos,
    kubernetes_qos,
    parse_sub_priority,
    qos_of_label,
    raw_class,
)
from cotenant.model.errors import InvalidInput
from cotenant.model.resources import Amounts, ContainerAmounts

PROD, MID, BATCH, FREE, NONE = PriorityClass


@pytest.mark.parametrize(
    ("priority", "band"),
    [
        *((9000, PROD), (9999, PROD), (8999, NONE), (10_000, NONE), (8000, NONE)),
        *((7000, MID), (7999, MID), (5000, BATCH), (5999, BATCH), (3000, FREE), (3999, FREE)),
        *((6666, NONE), (0, NONE), (-1, NONE), (2_000_000_000, NONE), (None, NONE)),
    ],
)
def test_bands(priority: int | None, band: PriorityClass) -> None:
    assert class_of_priority(priority) is band


def test_a_default_priority_lies_in_its_band() -> None:
    for band in BANDS:
        assert class_of_priority(band.default_priority) is band
    assert NONE.default_priority == 0


def test_labels() -> None:
    assert qos_of_label("LSE") is QoSClass.LSE
    assert [qos_of_label(label) for label in (None, "", "lse", "nonsense")] == [QoSClass.NONE] * 4
    assert class_of_label("koord-batch") is BATCH
    assert [class_of_label(label) for label in (None, "", "batch", "koord-")] == [NONE] * 4
    assert [c.label for c in PriorityClass] == ["koord-prod", "koord-mid", "koord-batch", "koord-free", ""]


def test_the_label_takes_precedence_over_the_priority() -> None:
    assert raw_class("koord-batch", 9500) is BATCH
    assert raw_class(None, 9500) is PROD
    assert raw_class("", 9500) is PROD
    assert raw_class("somebody-elses", 9500) is NONE


def test_the_qos_class_fills_in_an_undeclared_priority_class() -> None:
    assert [effective_class(NONE, qos) for qos in QoSClass] == [PROD, PROD, PROD, BATCH, PROD, NONE]
    assert effective_class(MID, QoSClass.BE) is MID


def test_kubernetes_own_classes() -> None:
    both = Amounts.of({"cpu": 100, "memory": 1})
    assert kubernetes_qos([ContainerAmounts(both, both)]) is KubernetesQoS.GUARANTEED
    assert kubernetes_qos([ContainerAmounts(limits=both)]) is KubernetesQoS.GUARANTEED
    assert kubernetes_qos([ContainerAmounts(both)]) is KubernetesQoS.BURSTABLE
    assert kubernetes_qos([ContainerAmounts(both, both), ContainerAmounts()]) is KubernetesQoS.BURSTABLE
    assert kubernetes_qos([ContainerAmounts(Amounts.of({"nvidia.com/gpu": 1}))]) is KubernetesQoS.BEST_EFFORT
    assert kubernetes_qos([]) is KubernetesQoS.BEST_EFFORT


def test_kubernetes_class_fills_in_an_undeclared_qos_class() -> None:
    assert [effective_qos(QoSClass.NONE, k) for k in KubernetesQoS] == [QoSClass.LSR, QoSClass.LS, QoSClass.BE]
    assert effective_qos(QoSClass.LS, KubernetesQoS.GUARANTEED) is QoSClass.LS


def test_sub_priority() -> None:
    assert [parse_sub_priority(label) for label in (None, "", "0", "8888", "-5", "+3")] == [0, 0, 0, 8888, -5, 3]
    for bad in ("high", "1.5", " 1", "9223372036854775808", "9" * 40, "٣"):
        with pytest.raises(InvalidInput, match=r"koordinator\.sh/priority"):
            parse_sub_priority(bad)
