"""The same node and agent on cgroup v2 with the driver cgroupfs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.fakes.node.kubelet.node import KubeletNode, v2_node
from tests.node.kubelet.beside import AgentBeside, beside


@pytest.fixture(scope="module")
def node() -> Iterator[KubeletNode]:
    """One kubelet for the cases of a module: each leaves it running."""
    with v2_node(systemd=False) as made:
        made.kubelet.start()
        yield made


@pytest.fixture(scope="module")
def agent(node: KubeletNode) -> Iterator[AgentBeside]:
    """An agent beside it."""
    yield from beside(node)
