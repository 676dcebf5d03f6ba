"""Amplified amounts: who wrote what, and which ratios count."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.resources import MAX_AMOUNT
from cotenant.policy.overcommit.amplification import (
    Amplified,
    amplification_ratios,
    amplify,
    kubelet_changed,
    normalization_ratio,
    normalized,
    usable_ratios,
)

WRITTEN = {"cpu": 1000, "memory": 501, "pods": 110}
RAW = {"cpu": 800, "memory": 400, "pods": 5}


@pytest.mark.parametrize(
    ("ratios", "raw", "by_kubelet", "expected"),
    [
        (None, None, True, Amplified(WRITTEN, None)),
        (None, RAW, True, Amplified(WRITTEN, None)),
        (None, RAW, False, Amplified({"cpu": 800, "memory": 400, "pods": 110}, None)),
        ({"cpu": 1.5}, None, True, Amplified({"cpu": 1500, "memory": 501, "pods": 110}, {"cpu": 1000, "memory": 501})),
        ({"cpu": 1.5}, RAW, True, Amplified({"cpu": 1500, "memory": 501, "pods": 110}, {"cpu": 1000, "memory": 501})),
        ({"cpu": 1.5}, RAW, False, Amplified({"cpu": 1200, "memory": 400, "pods": 110}, {"cpu": 800, "memory": 400})),
        (
            {"cpu": 0.5, "memory": 1.1, "pods": 9.0},
            {},
            False,
            Amplified({"cpu": 1000, "memory": 551, "pods": 110}, {"cpu": 1000, "memory": 501}),
        ),
        ({}, {"cpu": 7}, False, Amplified({"cpu": 7, "memory": 501, "pods": 110}, {"cpu": 7, "memory": 501})),
    ],
)
def test_what_is_stored(
    ratios: dict[str, float] | None, raw: dict[str, int] | None, by_kubelet: bool, expected: Amplified
) -> None:
    assert amplify(WRITTEN, ratios, raw, by_kubelet=by_kubelet) == expected


def test_amounts_that_no_machine_has_are_refused() -> None:
    most = {"memory": MAX_AMOUNT // 2}
    assert amplify(most, {"memory": 1.9}, None, by_kubelet=True).allocatable["memory"] < MAX_AMOUNT
    with pytest.raises(InvalidInput, match="amplified memory"):
        amplify({"memory": MAX_AMOUNT // 2 + 1}, {"memory": 2.0}, None, by_kubelet=True)
    assert amplify({"pods": 3}, {"cpu": 2.0}, None, by_kubelet=True) == Amplified({"pods": 3}, {})


def test_ratios_that_cannot_be_used_are_said_one_by_one() -> None:
    assert usable_ratios("f", '{"cpu": 1.5, "memory": 1, "pods": "x"}') == ({"cpu": 1.5, "memory": 1.0}, ())
    assert usable_ratios("f", "{}") == ({}, ())
    found, wrong = usable_ratios("f", '{"cpu": "1.5", "memory": 2}')
    assert (found, len(wrong)) == ({"memory": 2.0}, 1)
    assert wrong[0].startswith('f: cpu: "1.5": expected a number from 1 to ')
    for text in ('{"cpu": true}', '{"cpu": 0.99}', '{"cpu": 1e9}', '{"cpu": null}'):
        assert usable_ratios("f", text)[0] == {}
        assert len(usable_ratios("f", text)[1]) == 1
    assert usable_ratios("f", "[]")[0] == {}
    assert "a JSON object of ratios by resource" in usable_ratios("f", "[]")[1][0]


def test_a_write_of_unknown_author_is_the_kubelets_where_amounts_differ() -> None:
    assert not kubelet_changed(None, WRITTEN)
    assert not kubelet_changed(WRITTEN, None)
    assert not kubelet_changed(WRITTEN, {**WRITTEN, "pods": 5})
    for name in ("cpu", "memory"):
        assert kubelet_changed(WRITTEN, {**WRITTEN, name: 5})
        assert kubelet_changed(WRITTEN, {key: amount for key, amount in WRITTEN.items() if key != name})


@pytest.mark.parametrize(
    ("configured", "normalization", "expected"),
    [
        (None, None, None),
        ({}, None, None),
        (None, "1", None),
        (None, "1.25", {"cpu": "1.25"}),
        ({"memory": 1.5}, "1", {"memory": "1.50"}),
        ({"cpu": 1.2, "memory": 2.0}, None, {"cpu": "1.20", "memory": "2.00"}),
        ({"cpu": 1.2}, "1", {"cpu": "1.20"}),
        ({"cpu": 1.2}, "1.1", {"cpu": "1.32"}),
        ({"cpu": 1.05}, "1.1", {"cpu": "1.16"}),  # 1.155
    ],
)
def test_the_ratios_to_annotate(
    configured: dict[str, float] | None, normalization: str | None, expected: dict[str, str] | None
) -> None:
    assert amplification_ratios(configured, normalization) == expected


def test_ratios_below_one_and_normalizations_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(InvalidInput, match="amplification ratio of memory"):
        amplification_ratios({"memory": 0.99}, None)
    assert (normalization_ratio("1"), normalization_ratio("5.0")) == (1, 5)
    for text in ("", "x", "0.99", "5.01", "NaN", "Infinity"):
        with pytest.raises(InvalidInput, match="CPU normalization ratio"):
            normalization_ratio(text)


@pytest.mark.parametrize(
    ("cpu_m", "ratio", "expected"),
    [
        (1000, None, 1000),
        (1000, "1", 1000),
        (1000, "1.2", 1200),
        (1001, "1.5", 1502),
        (1, "1.0001", 1),
        (1, "1.001", 2),
    ],
)
def test_normalized_amounts_are_cut_at_thousandths_and_rounded_up(cpu_m: int, ratio: str | None, expected: int) -> None:
    assert normalized(cpu_m, None if ratio is None else Decimal(ratio)) == expected
