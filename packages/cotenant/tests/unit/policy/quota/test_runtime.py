from __future__ import annotations

from cotenant.policy.quota.runtime import QuotaSibling, apportion, scaled_minima, share


def test_the_founding_example() -> None:
    members = [QuotaSibling(5, 10, 40), QuotaSibling(20, 15, 60), QuotaSibling(40, 20, 50), QuotaSibling(70, 15, 80)]
    assert share(100, members) == [5, 20, 35, 40]


def test_units_that_do_not_divide_go_to_the_largest_remainders_then_by_position() -> None:
    assert apportion(10, [10, 10, 10], [1, 1, 1]) == [4, 3, 3]
    assert apportion(10, [10, 10], [2, 1]) == [7, 3]  # 6.67 and 3.33
    assert apportion(1, [1, 1, 1], [1, 2, 1]) == [0, 1, 0]


def test_members_that_need_less_than_their_share_return_the_difference() -> None:
    assert apportion(90, [10, 100, 100], [1, 1, 1]) == [10, 40, 40]
    assert apportion(90, [10, 20, 100], [100, 1, 1]) == [10, 20, 60]


def test_products_beyond_64_bits_are_exact() -> None:
    most = 2**53 - 1
    gains = apportion(most, [most] * 3, [most, most - 1, most - 2])
    assert sum(gains) == most
    assert gains == sorted(gains, reverse=True)


def test_without_weight_there_is_the_floor_and_nothing_else() -> None:
    assert share(100, [QuotaSibling(50, 10, 0), QuotaSibling(50, 10, 0)]) == [10, 10]
    assert share(100, [QuotaSibling(50, 10, 0), QuotaSibling(50, 10, 1)]) == [10, 50]


def test_what_is_not_lent_is_kept_and_the_rest_is_shared() -> None:
    assert share(100, [QuotaSibling(0, 60, 1, lends=False), QuotaSibling(100, 0, 1)]) == [60, 40]
    assert share(100, [QuotaSibling(0, 60, 1), QuotaSibling(100, 0, 1)]) == [0, 100]


def test_floors_beyond_the_total_are_kept_and_nothing_is_shared() -> None:
    assert share(10, [QuotaSibling(20, 8, 1), QuotaSibling(20, 8, 1)]) == [8, 8]


def test_minima_are_scaled_only_where_they_do_not_fit_and_fixed_ones_stay() -> None:
    assert scaled_minima(100, [50, 50], [True, True]) == [50, 50]
    assert scaled_minima(99, [50, 50], [True, True]) == [49, 49]
    assert scaled_minima(80, [50, 30, 30], [False, True, True]) == [50, 15, 15]
    assert scaled_minima(40, [50, 30], [False, True]) == [50, 0]
    assert scaled_minima(40, [50, 0], [False, True]) == [50, 0]
