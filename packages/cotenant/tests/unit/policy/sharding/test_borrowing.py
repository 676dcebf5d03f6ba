"""How much room of a quota is lent, beside who waits at home."""

from __future__ import annotations

from cotenant.policy.sharding.borrowing import pods_to_grant


def test_all_that_is_asked_is_lent_where_everybody_fits() -> None:
    assert pods_to_grant(asked=4, fitting=10, before=2, beside=4) == 4


def test_who_goes_first_at_home_keeps_his_room() -> None:
    assert pods_to_grant(asked=4, fitting=3, before=3, beside=0) == 0
    assert pods_to_grant(asked=4, fitting=5, before=3, beside=0) == 2


def test_those_of_the_same_right_share_what_is_left() -> None:
    assert pods_to_grant(asked=6, fitting=8, before=0, beside=6) == 4
    assert pods_to_grant(asked=1, fitting=2, before=0, beside=99) == 1
    assert pods_to_grant(asked=0, fitting=2, before=0, beside=1) == 0
