from __future__ import annotations

import pytest

from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration, first_repelling, tolerated
from cotenant.model.errors import InvalidInput

GPU = Taint("gpu", "a100", TaintEffect.NO_SCHEDULE)


@pytest.mark.parametrize(
    ("toleration", "yes"),
    [
        (Toleration("gpu", Match.EQUAL, "a100"), True),
        (Toleration("gpu", Match.EQUAL, "a100", TaintEffect.NO_SCHEDULE), True),
        (Toleration("gpu", Match.EXISTS), True),
        (Toleration(operator=Match.EXISTS), True),
        (Toleration("gpu", Match.EQUAL, "v100"), False),
        (Toleration("gpu"), False),
        (Toleration("other", Match.EXISTS), False),
        (Toleration("gpu", Match.EXISTS, effect=TaintEffect.NO_EXECUTE), False),
    ],
)
def test_what_a_toleration_covers(toleration: Toleration, yes: bool) -> None:
    assert toleration.tolerates(GPU) is yes
    assert tolerated(GPU, [toleration]) is yes


@pytest.mark.parametrize(
    ("operator", "bound", "value", "yes"),
    [
        (Match.GT, "5", "7", True),
        (Match.GT, "5", "5", False),
        (Match.GT, "-3", "0", True),
        (Match.LT, "5", "-7", True),
        (Match.LT, "5", "5", False),
        (Match.LT, "9223372036854775807", "9223372036854775806", True),
        (Match.LT, "5", "", False),
        (Match.LT, "5", "04", False),
        (Match.LT, "5", "+4", False),
        (Match.GT, "5", "9223372036854775808", False),
        (Match.GT, "5", "many", False),
    ],
)
def test_numbers_are_compared(operator: Match, bound: str, value: str, yes: bool) -> None:
    assert Toleration("level", operator, bound).tolerates(Taint("level", value)) is yes
    assert not Toleration("other", operator, bound).tolerates(Taint("level", value))


def test_without_value_equal_means_an_empty_value() -> None:
    assert Toleration("dedicated").tolerates(Taint("dedicated"))


def test_the_first_repelling_taint_is_returned() -> None:
    soft, hard = Taint("soft", "", TaintEffect.PREFER_NO_SCHEDULE), Taint("hard", "x", TaintEffect.NO_EXECUTE)
    assert first_repelling([soft, GPU, hard], []) == GPU
    assert first_repelling([soft, GPU, hard], [Toleration("gpu", Match.EXISTS)]) == hard
    assert first_repelling([soft], []) is None
    assert str(GPU) == "{gpu: a100}"


def test_nonsense_is_refused() -> None:
    for build in (
        lambda: Taint(""),
        lambda: Toleration("", Match.EQUAL, "x"),
        lambda: Toleration("k", Match.EXISTS, "x"),
        lambda: Toleration("", Match.GT, "1"),
        lambda: Toleration("k", Match.GT, ""),
        lambda: Toleration("k", Match.LT, "007"),
        lambda: Toleration("k", Match.LT, "9223372036854775808"),
    ):
        with pytest.raises(InvalidInput):
            build()
