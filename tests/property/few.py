"""How many cases a property is tried on.

Hundreds of cases find a rare fault; the first ones notice a wrong sign, or a condition that was turned around.
`make test` tries a third of what a property asks for, the same ones each time; `make test-long` tries all of them, and
`make properties` as many that are new.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from hypothesis import given, settings

SHARE = 3


def examples(most: int) -> int:
    """How many cases this run tries of a property that asks for `most`."""
    in_full = os.environ.get("COTENANT_ALL_EXAMPLES") or os.environ.get("COTENANT_RANDOM_PROPERTIES")
    return most if in_full else -(-most // SHARE)


def first_cases(*properties: Any, most: int = 5) -> Callable[[Callable[[], None]], None]:
    """A test that runs so many cases of each of these properties."""
    named = [pytest.param(_few(test, most), id=test.__name__.removeprefix("test_")) for test in properties]

    @pytest.mark.parametrize("check", named)
    def test_first_cases(check: Callable[[], None]) -> None:
        check()

    return test_first_cases


def _few(test: Any, most: int) -> Callable[[], None]:
    inner = test.hypothesis.inner_test

    @wraps(inner, updated=())  # without its settings
    def again(*args: Any, **kwargs: Any) -> None:
        inner(*args, **kwargs)

    found: Callable[[], None] = settings(max_examples=most)(given(**test.hypothesis._given_kwargs)(again))
    return found
