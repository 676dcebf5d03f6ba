"""Real cgroups of this machine, in groups of the tests' own. Skipped, with the reason, where there are none or they
may not be created.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.fakes.servers.docker_fleet import docker, fleet

from cotenant.drivers.cgroup.layout import CgroupLayout, detect
from cotenant.drivers.cgroup.tree import Groups
from cotenant.model.errors import CotenantError

__all__ = ["docker", "fleet"]


@pytest.fixture(scope="session")
def layout() -> CgroupLayout:
    """This machine's trees."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    try:
        return detect()
    except CotenantError as error:
        pytest.skip(str(error))


@pytest.fixture
def groups(layout: CgroupLayout) -> Iterator[Groups]:
    """What makes and removes groups."""
    with Groups(layout) as made:
        yield made


@pytest.fixture
def group(groups: Groups) -> Iterator[str]:
    """A group of the test's own, killed and removed afterwards with what is below it."""
    top = f"cotenant-test-{os.getpid()}"
    try:
        groups.make(f"{top}/one")
    except CotenantError as error:
        groups.remove(top)
        pytest.skip(f"no group can be made here: {error}")
    try:
        yield f"{top}/one"
    finally:
        if groups.exists(top):
            groups.kill(top)
        groups.remove(top)
