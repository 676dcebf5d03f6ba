"""docs/recipes/plugin.md: its plugin, as the page has it, filters, scores, reserves and explains, without a change
of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.contributing.recipes import blocks
from tests.unit.contributing.working import node, outcomes, pod

from cotenant.engine.cluster import Cluster
from cotenant.engine.explain.copying import fresh_rng
from cotenant.engine.framework.instructions import Bind
from cotenant.engine.framework.plugin import Plugin
from cotenant.engine.registry import PluginRegistry
from cotenant.model.cluster.labels import Labels
from cotenant.model.decisions.reasons import Rejection
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.others_plugins import GROUP, others_plugins

PAGE = (Path(__file__).parents[3] / "docs/recipes/plugin.md").read_text()
ASKS = Labels.of({"example.com/licence": "cad"})


@pytest.fixture
def seats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Plugin]]:
    """The page's class, installed as a package whose entry point is the page's."""
    (block,) = blocks(PAGE)
    block.apply(tmp_path)
    entry = PAGE.split(f'[project.entry-points."{GROUP}"]\n')[1].split("\n```")[0].replace('"', "")
    about = tmp_path / "seats-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text(f"[{GROUP}]\n{entry}\n")
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: seats\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield type(others_plugins(("seats",))[0])
    sys.modules.pop("seats", None)


def seated(name: str, count: int, cpu: int = 8000) -> Any:
    from cotenant.model.cluster.labels import HOSTNAME
    from cotenant.model.cluster.node import Node
    from cotenant.model.resources import Amounts

    labels = Labels.of({HOSTNAME: name, "example.com/seats": str(count)})
    return Node(name, Amounts.of({"cpu": cpu, "memory": 64 << 30}), labels)


def cluster(plugin: Plugin, *nodes: Any) -> Cluster:
    made = Cluster(profile("least-allocated"), fresh_rng(), None, PluginRegistry(more=(plugin,)))
    for entry in nodes:
        made.node_seen(entry)
    return made


def test_the_plugin_has_at_most_forty_lines_of_code() -> None:
    (block,) = blocks(PAGE)
    assert sum(bool(line.strip()) for line in block.text.split("\n")) <= 40


def test_pods_of_one_round_are_judged_with_those_before_them(seats: type[Plugin]) -> None:
    made = cluster(seats(), seated("a", 2), node("b", 8000, 64 << 30))
    for i in range(3):
        made.pod_seen(pod(f"p{i}", 100, labels=ASKS), 0.0)
    made.pod_seen(pod("plain", 100), 0.0)
    found = outcomes(made.decide(0.0))
    assert (found["uid-p0"], found["uid-p1"]) == ("a", "a")
    assert found["uid-p2"].startswith("0/2 nodes are available: 2 node(s) without a free seat.")
    assert found["uid-plain"] == "b"  # it skips the plugin; the emptier node wins
    made.validate()


def test_a_seat_that_is_free_again_wakes_the_pod(seats: type[Plugin]) -> None:
    made = cluster(seats(), seated("a", 1))
    for name in ("first", "second"):
        made.pod_seen(pod(name, 100, labels=ASKS), 0.0)
    assert outcomes(made.decide(0.0))["uid-first"] == "a"
    made.pod_gone("uid-first", 1.0)
    assert outcomes(made.decide(20.0)) == {"uid-second": "a"}


def test_its_score_decides_between_nodes_that_the_profile_ranks_alike(seats: type[Plugin]) -> None:
    made = cluster(seats(), seated("a", 9), seated("b", 9))
    for i in range(3):
        made.pod_seen(pod(f"plain-{i}", 100, on="a"), 0.0)
        made.pod_seen(pod(f"on-{i}", 100, on="b", labels=ASKS), 0.0)
    made.pod_seen(pod("next", 100, labels=ASKS), 0.0)
    made.pod_seen(pod("plain", 100), 0.0)
    assert outcomes(made.decide(0.0)) == {"uid-next": "b", "uid-plain": "a"}


def test_a_seat_returns_when_a_bind_fails(seats: type[Plugin]) -> None:
    made = cluster(seats(), seated("a", 1))
    made.pod_seen(pod("x", 100, labels=ASKS), 0.0)
    (bind,) = [instruction for instruction in made.decide(0.0) if isinstance(instruction, Bind)]
    assert made.sending(bind.uid, 0.0)
    made.bind_failed(bind.uid, "conflict", 0.0)
    assert outcomes(made.decide(5.0)) == {"uid-x": "a"}


def test_why_names_the_plugin(seats: type[Plugin]) -> None:
    made = cluster(seats(), seated("a", 0))
    made.pod_seen(pod("x", 100, labels=ASKS), 0.0)
    made.decide(0.0)
    answer = made.why.pod("default/x", 1.0)
    assert answer is not None
    assert answer.waiting is not None
    assert answer.waiting.rejections == (Rejection("LicenceSeats", "node(s) without a free seat", 1),)


def test_an_entry_point_that_is_not_there_is_refused(seats: type[Plugin]) -> None:
    with pytest.raises(InvalidInput, match=r"--plugin: chairs: expected an entry point .*: seats"):
        others_plugins(("chairs",))
    with pytest.raises(InvalidInput, match="LicenceSeats: expected a name that no other plugin has"):
        others_plugins(("seats", "seats"))
