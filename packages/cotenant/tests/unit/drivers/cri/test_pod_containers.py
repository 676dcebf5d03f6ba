"""Which container of which pod a name means, and which processes are a container's."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from cotenant.drivers.cri.client import CriClient, RunningContainer, Sandbox
from cotenant.drivers.cri.containers import NAME
from cotenant.drivers.cri.exec import beside
from cotenant.drivers.cri.pod_containers import USUAL_CONTAINER, PodContainers
from cotenant.model.cluster.labels import Labels
from cotenant.model.errors import InvalidInput
from cotenant.model.fleet.pods import PodContainer, PodName


class Node(CriClient):
    """A runtime with pods."""

    def __init__(self) -> None:
        super().__init__("/nowhere")
        self.pods: list[Sandbox] = []
        self.run: list[RunningContainer] = []

    def pod(self, namespace: str, name: str, *containers: str, usual: str = "", ready: bool = True) -> None:
        key = f"{namespace}-{name}-{len(self.pods)}"
        labels = Labels.of({NAME: name} if namespace == "cotenant" else {})
        annotations = Labels.of({USUAL_CONTAINER: usual} if usual else {})
        self.pods.append(Sandbox(key, key, namespace, name, ready, 1, labels, annotations))
        self.run += [RunningContainer(f"{key}-{container}", key, container, 1) for container in containers]

    def sandboxes(self) -> tuple[Sandbox, ...]:
        return tuple(self.pods)

    def containers(self) -> tuple[RunningContainer, ...]:
        return tuple(self.run)


def chosen(node: Node, text: str) -> PodContainer | None:
    return asyncio.run(PodContainers(Path("/nowhere"), node).container(PodName.read("guid", text)))


def test_the_usual_container_is_that_of_the_annotation_or_the_only_one() -> None:
    node = Node()
    node.pod("shop", "web-1", "app", "side", usual="app")
    node.pod("shop", "one", "main")
    node.pod("shop", "two", "a", "b")
    assert chosen(node, "shop/web-1") == PodContainer("shop", "web-1", "app", "shop-web-1-0-app")
    assert str(chosen(node, "shop/web-1/side")) == "shop/web-1/side"
    assert str(chosen(node, "one")) == "shop/one/main"
    assert chosen(node, "other/one") is None
    with pytest.raises(InvalidInput, match="one of shop/two/a, shop/two/b"):
        chosen(node, "shop/two")
    with pytest.raises(InvalidInput, match="container: none: expected one of shop/one/main"):
        chosen(node, "shop/one/none")


def test_pods_that_ended_and_those_of_the_fleet_itself_are_not_there() -> None:
    node = Node()
    node.pod("shop", "web-1", "app", ready=False)
    node.pod("cotenant", "web-1", "web")
    pods = PodContainers(Path("/nowhere"), node)
    assert asyncio.run(pods.names(PodName("web-1"))) == ()
    node.pod("shop", "web-1", "app")
    node.pod("other", "web-1", "app")
    assert asyncio.run(pods.names(PodName("web-1"))) == ("other/web-1", "shop/web-1")
    assert asyncio.run(pods.names(PodName("web-1", "shop"))) == ("shop/web-1",)
    with pytest.raises(InvalidInput, match="one of other/web-1/app, shop/web-1/app"):
        chosen(node, "web-1")


def test_a_container_s_processes_share_its_cgroup_and_its_namespace(tmp_path: Path) -> None:
    for process, namespace, group in (
        (10, "a", "/x"),
        (11, "a", "/x"),
        (12, "a", "/y"),
        (13, "b", "/x"),
        (14, "a", None),
    ):
        (tmp_path / f"{process}/ns").mkdir(parents=True)
        os.symlink(f"pid:[{namespace}]", tmp_path / f"{process}/ns/pid")
        if group is not None:
            (tmp_path / f"{process}/cgroup").write_text(f"0::{group}\n")
    assert beside(10, tmp_path) == {10, 11}
    assert beside(14, tmp_path) == frozenset()
    assert beside(99, tmp_path) == frozenset()
