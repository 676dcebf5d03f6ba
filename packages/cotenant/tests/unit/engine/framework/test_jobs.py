"""Jobs: groups that are placed together, in words."""

from __future__ import annotations

import pytest

from cotenant.engine.framework.jobs import PlacedJob


@pytest.mark.parametrize(
    ("keys", "name"),
    [(("a/one",), "gang a/one"), (("a/one", "b/two"), "gangs a/one, b/two"), (("c", "b", "a"), "gangs c, b, a")],
)
def test_a_job_is_named_by_all_of_its_gangs(keys: tuple[str, ...], name: str) -> None:
    assert PlacedJob(keys, (), 0).name == name
