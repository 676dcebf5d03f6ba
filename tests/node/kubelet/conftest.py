"""A node with the stand-in for the kubelet on this machine's own trees, and an agent beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.node.kubelet.node import KubeletNode, v1_node
from tests.node.kubelet.beside import AgentBeside, beside

from cotenant.drivers.cgroup.layout import CgroupLayout


@pytest.fixture(scope="module")
def node(layout: CgroupLayout) -> Iterator[KubeletNode]:
    """One kubelet for the cases of a module: each leaves it running."""
    if layout.version("cpu") != 1 or layout.version("cpuset") != 1:
        pytest.skip("this machine's controllers are not on cgroup v1: tests/node/guest has the others")
    folder = Path(tempfile.mkdtemp(prefix="cotenant-test-"))
    try:
        with v1_node(f"cotenant-test-kubelet-{os.getpid()}", folder) as made:
            made.kubelet.start()
            yield made
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def agent(node: KubeletNode) -> Iterator[AgentBeside]:
    """An agent in `act` that holds quota and idle class of a best-effort pod beside a service."""
    yield from beside(node)
