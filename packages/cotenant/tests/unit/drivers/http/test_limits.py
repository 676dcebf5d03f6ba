"""Limits are above 0."""

from dataclasses import fields, replace

import pytest

from cotenant.drivers.http.limits import DEFAULTS


@pytest.mark.parametrize("name", [field.name for field in fields(DEFAULTS)])
def test_every_limit_is_above_0(name: str) -> None:
    for value in (0, -1):
        with pytest.raises(ValueError, match=name):
            replace(DEFAULTS, **{name: value})
