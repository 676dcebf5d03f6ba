import pytest

from cotenant.model.errors import InvalidInput
from cotenant_local.controllers.workloads.rounding import fenceposts, resolve


@pytest.mark.parametrize(
    ("value", "total", "up", "expected"),
    [
        ("25%", 10, True, 3),
        ("25%", 10, False, 2),
        ("0%", 10, True, 0),
        ("100%", 7, False, 7),
        ("1%", 1, True, 1),
        ("1%", 1, False, 0),
        (3, 10, True, 3),
        (None, 4, True, 1),
    ],
)
def test_percentages_round_in_the_direction_of_the_field(value: object, total: int, up: bool, expected: int) -> None:
    assert resolve(value, total, up=up, default="25%") == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["25", "%", "x%", "-5%", "2.5%", "9" * 5000 + "%"])
def test_malformed_amounts_are_refused_with_the_field_name(value: str) -> None:
    with pytest.raises(InvalidInput, match="maxSurge"):
        resolve(value, 4, up=True, field="maxSurge")


@pytest.mark.parametrize(
    ("surge", "unavailable", "desired", "expected"),
    [
        (None, None, 4, (1, 1)),
        (None, None, 10, (3, 2)),
        (0, 0, 5, (0, 1)),  # the update could not proceed
        ("0%", "10%", 5, (0, 1)),  # 10 % of 5 rounds down to nothing
        (0, 9, 3, (0, 3)),
        (1, 0, 1, (1, 0)),
    ],
)
def test_fenceposts(surge: object, unavailable: object, desired: int, expected: tuple[int, int]) -> None:
    assert fenceposts(surge, unavailable, desired) == expected  # type: ignore[arg-type]
