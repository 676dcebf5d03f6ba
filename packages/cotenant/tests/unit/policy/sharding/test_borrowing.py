"""How much room of a quota is lent, beside who waits at home."""

from __future__ import annotations

from cotenant.policy.sharding.borrowing import pods_to_grant


def test_all_that_is_asked_is_lent_where_everybody_fits() -> None:
    assert pods_to_grant(asked=4, fitting=8, beside=4) == 4


def test_where_not_everybody_fits_what_fits_is_lent() -> None:
    assert pods_to_grant(asked=4, fitting=0, beside=0) == 0
    assert pods_to_grant(asked=4, fitting=2, beside=0) == 2


def test_those_of_the_same_right_share_what_is_left() -> None:
    assert pods_to_grant(asked=6, fitting=8, beside=6) == 4
    assert pods_to_grant(asked=1, fitting=2, beside=99) == 1
    assert pods_to_grant(asked=0, fitting=2, beside=1) == 0
