"""The grammar of --what-if: what each text changes, and what is said of what it does not know."""

from __future__ import annotations

import pytest

from cotenant.model.assess.what_if import (
    AddNodes,
    Change,
    LoseZone,
    NoOvercommit,
    PlaceAnew,
    RemoveNodes,
    ResizeCase,
    ScaledLoad,
)
from cotenant.model.errors import InvalidInput
from cotenant.services.assess.what_ifs.writing import MAX_CASES, check_seeds, read_what_ifs


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("add=1:m5.large", AddNodes(1, "m5.large")),
        ("add=10000:16x64Gi", AddNodes(10_000, "16x64Gi")),
        ("remove=3:node-1", RemoveNodes(3, "node-1")),
        ("zone-lost=eu-1a", LoseZone("eu-1a")),
        ("load=1.3", ScaledLoad(1.3)),
        ("load=10", ScaledLoad(10.0)),
        ("load=0.001", ScaledLoad(0.001)),
        ("overcommit=off", NoOvercommit()),
        ("policy=cotenant-requests", PlaceAnew("cotenant-requests")),
        ("policy=my.yaml", PlaceAnew("my.yaml")),
        ("size=shop/web:cpu=500m", ResizeCase("shop/web", 500, None)),
        ("size=shop/Deployment/web:memory=1Gi,cpu=2", ResizeCase("shop/Deployment/web", 2000, 1 << 30)),
        ("size=shop/web:cpu=0,memory=0", ResizeCase("shop/web", 0, 0)),
    ],
)
def test_a_change_as_it_is_written(text: str, change: Change) -> None:
    (case,) = read_what_ifs([f"  {text} ;"])
    assert (case.text, case.changes) == (text, (change,))


def test_changes_of_a_case_are_made_in_the_order_in_which_they_are_written() -> None:
    first, second = read_what_ifs(["add=1:a;load=2\n zone-lost=z", "overcommit=off"])
    assert first.text == "add=1:a load=2 zone-lost=z"
    assert first.changes == (AddNodes(1, "a"), ScaledLoad(2.0), LoseZone("z"))
    assert second.changes == (NoOvercommit(),)
    assert read_what_ifs([]) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "with blanks between"),
        (" ; ", "with blanks between"),
        ("add=0:m5", "--what-if add: 0:m5: expected N:SHAPE, N from 1 to 10000"),
        ("add=10001:m5", "N from 1 to 10000"),
        ("add=-1:m5", "N from 1 to 10000"),
        ("add=²:m5", "N from 1 to 10000"),
        ("add=1:", "CPUxMEMORY such as 16x64Gi"),
        ("remove=m5", "--what-if remove"),
        ("zone-lost=", "one of add=N:SHAPE"),
        ("zone=a", "one of add=N:SHAPE"),
        ("load=0", "a factor above 0, 10 at most"),
        ("load=-1", "a factor above 0"),
        ("load=10.1", "a factor above 0"),
        ("load=inf", "a factor above 0"),
        ("load=nan", "a factor above 0"),
        ("load=much", "such as 1.3"),
        ("overcommit=on", "--what-if overcommit: on: expected off"),
        ("policy=nothing", "--what-if policy"),
        ("policy=cotenant policy=kube-default", "two of them are two cases"),
        ("size=web:cpu=1", "such as shop/web:cpu=500m"),
        ("size=a/b/c/d:cpu=1", "such as shop/web:cpu=500m"),
        ("size=/web:cpu=1", "such as shop/web:cpu=500m"),
        ("size=shop/web", "each at most once"),
        ("size=shop/web:cpu=1,cpu=2", "each at most once"),
        ("size=shop/web:memory=1,memory=2", "each at most once"),
        ("size=shop/web:gpu=1", "each at most once"),
        ("size=shop/web:cpu=much", "--what-if size cpu"),
        ("size=shop/web:memory=much", "--what-if size memory"),
        ("size=shop/web:cpu=-1", "amounts of 0 or more"),
        ("size=shop/web:memory=-1,cpu=1", "amounts of 0 or more"),
    ],
)
def test_what_it_does_not_know_is_said(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read_what_ifs([text])
    assert said in str(refused.value)


def test_there_are_a_few_cases_and_seeds() -> None:
    assert len(read_what_ifs(["overcommit=off"] * MAX_CASES)) == MAX_CASES
    with pytest.raises(InvalidInput, match="at most 4"):
        read_what_ifs(["overcommit=off"] * (MAX_CASES + 1))
    check_seeds(1)
    check_seeds(100)
    for seeds in (0, 101):
        with pytest.raises(InvalidInput, match="--seeds"):
            check_seeds(seeds)
