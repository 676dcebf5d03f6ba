"""A few cases of slow properties, for the tests that are run at every turn.

Thousands of cases find a rare fault; the first ones notice a wrong sign, or a condition that was turned around.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from hypothesis import given, settings


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
