"""Image locality, by kube-scheduler's formula, and where it counts as no preference."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cotenant.drivers.kube.kinds.node import NodeObject, read_node
from cotenant.drivers.kube.kinds.pod.reader import PodReader
from cotenant.drivers.kube.kinds.pod.schema import PodObject
from cotenant.engine.cluster import Cluster
from cotenant.engine.encoding.encoder import Encoder
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.settings import EngineSettings
from cotenant.engine.state.images import NodeImages
from cotenant.model.cluster.node import Node
from cotenant.model.resources import Amounts
from cotenant.policy.placement.profiles import profile

MIB = 1 << 20
SIZE = Amounts.of({"cpu": 1000, "memory": 1000})


def known(*nodes: dict[str, int]) -> NodeImages:
    encoder = Encoder(half_node_cores=1.0)
    found = NodeImages(encoder)
    for i, images in enumerate(nodes):
        encoder.add_node(Node(f"n{i}", SIZE))
        found.set(f"n{i}", tuple(images.items()))
    return found


def scores(found: NodeImages, *wanted: str) -> list[float] | None:
    values = found.scores(wanted)
    return None if values is None else values.tolist()


def test_size_times_the_share_of_nodes() -> None:
    found = known({"a:1": 500 * MIB}, {"a:1": 500 * MIB}, {}, {})
    assert scores(found, "a:1") == [23.0, 23.0, 0.0, 0.0]  # 100 * (250 - 23) / (1000 - 23)
    assert scores(found, "a:1", "b:1") == [11.0, 11.0, 0.0, 0.0]  # two containers


def test_equal_rows_are_no_preference() -> None:
    assert scores(known({"a:1": 500 * MIB}, {"a:1": 500 * MIB}), "a:1") is None
    assert scores(known({"a:1": 40 * MIB}, {}), "a:1") is None  # 20 MiB by share: too small to matter
    assert scores(known({"a:1": 500 * MIB}, {}), "b:1") is None
    assert scores(known({}, {}), "a:1") is None


def test_scores_follow_the_nodes() -> None:
    found = known({"a:1": 900 * MIB}, {})
    assert scores(found, "a:1") == [43.0, 0.0]
    found.set("n1", (("a:1", 900 * MIB),))
    assert scores(found, "a:1") is None
    found.set("n0", ())
    assert scores(found, "a:1") == [0.0, 43.0]


@given(
    st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3000 * MIB)), min_size=1, max_size=5),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=3).map(tuple),
)
def test_agrees_with_the_formula_row_by_row(nodes: list[dict[str, int]], wanted: tuple[str, ...]) -> None:
    plain = []
    for has in nodes:
        total = sum(int(has[i] * (sum(i in other for other in nodes) / len(nodes))) for i in wanted if i in has)
        least, most = 23 * MIB, 1000 * MIB * len(wanted)
        plain.append(float(100 * (min(max(total, least), most) - least) // (most - least)))
    assert (scores(known(*nodes), *wanted) or [plain[0]] * len(nodes)) == plain


def test_a_pod_prefers_the_node_that_has_its_image() -> None:
    def node(name: str, *images: str) -> Node:
        has = [{"names": [image], "sizeBytes": 2000 * MIB} for image in images]
        status = {"allocatable": {"cpu": "4", "memory": "8Gi"}, "images": has}
        return read_node(msgspec.convert({"metadata": {"name": name}, "status": status}, NodeObject))

    c = Cluster(profile("least-allocated"), np.random.default_rng(1), EngineSettings())
    for entry in (node("a"), node("b"), node("c", "registry:5000/app:latest")):
        c.node_seen(entry)
    spec: dict[str, Any] = {"schedulerName": "cotenant", "containers": [{"image": "registry:5000/app"}]}
    for name in ("p", "q"):
        made = {"metadata": {"name": name, "uid": name}, "spec": spec}
        c.pod_seen(PodReader().pod(msgspec.convert(made, PodObject)), 0.0)
    assert {instruction.node for instruction in c.decide(0.0) if isinstance(instruction, Bind)} == {"c"}
    c.node_seen(node("b", "registry:5000/app:latest"))
    c.node_seen(node("c"))  # removed there
    made = {"metadata": {"name": "r", "uid": "r"}, "spec": spec}
    c.pod_seen(PodReader().pod(msgspec.convert(made, PodObject)), 1.0)
    assert [instruction.node for instruction in c.decide(1.0) if isinstance(instruction, Bind)] == ["b"]
    c.validate()
