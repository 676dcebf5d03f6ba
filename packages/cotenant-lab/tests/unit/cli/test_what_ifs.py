"""Contention in copies of clusters: places are the engine's, slowdowns the world's law."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.fakes.cluster.assessed import node, pod, replica_set, snapshot

from cotenant.cli.main import main
from cotenant.drivers.kube.snapshot.archive import write_archive
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant_lab.crowding import Crowd, law_of_seed, profiles_of, slowdowns
from cotenant_lab.world.config import PRESSURE_LAWS, WorldConfig
from cotenant_lab.world.contention import response, smt_slowdown


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Four pods on two nodes, one of them without neighbours."""
    objects = [node("a"), node("b"), *(pod(f"p{i}", "a" if i < 3 else "b", "2") for i in range(4)), replica_set(4)]
    rows = np.repeat(np.array([[1800.0], [1500.0], [1000.0], [1900.0]], np.float32), 48, axis=1)
    names = tuple(f"shop/p{i}" for i in range(4))
    asked = np.full(4, 2000.0, np.float32)
    pods = PodHistory(
        AssessedHistory(0.0, 3600.0, names, rows, rows),
        ("a", "a", "a", "b"),
        ("shop/Deployment/web",) * 4,
        asked,
        asked,
    )
    of_nodes = np.array([rows[:3].sum(axis=0), rows[3]], np.float32)
    write_archive(
        tmp_path / "dump.zip",
        snapshot(objects),
        ClusterHistory(pods, AssessedHistory(0.0, 3600.0, ("a", "b"), of_nodes, of_nodes)),
    )
    return tmp_path / "dump.zip"


def test_slowdowns_are_those_of_the_law_pod_by_pod() -> None:
    rng = np.random.default_rng(0)
    for seed in range(5):
        w = law_of_seed(seed)
        cores = rng.gamma(2.0, 1.0, (6, 3))
        cores[1, 1] = 0.0
        on = np.array([0, 0, 1, 1, 1, -1])
        crowd = Crowd(cores, on, np.array([8.0, 16.0]))
        a, b = rng.random(6), rng.random(6)
        found = slowdowns(crowd, a, b, w)
        for p in range(6):
            for step in range(3):
                if on[p] < 0 or cores[p, step] == 0:
                    assert np.isnan(found[p, step])
                    continue
                same = [q for q in range(6) if on[q] == on[p]]
                others = sum(b[q] * cores[q, step] for q in same if q != p) / (crowd.capacity[on[p]] / 2)
                smt = smt_slowdown(sum(cores[q, step] for q in same) / crowd.capacity[on[p]], w.smt_loss)
                assert found[p, step] == pytest.approx((1 + a[p] * response(others, w)) * smt)


def test_laws_and_profiles_are_drawn_from_the_seed() -> None:
    assert {law_of_seed(seed).pressure_law for seed in range(30)} == set(range(len(PRESSURE_LAWS)))
    config = WorldConfig()
    both, one = profiles_of(("x", "y"), 3, config), profiles_of(("y",), 3, config)
    assert (both[0][1], both[1][1]) == (one[0][0], one[1][0])
    assert profiles_of(("y",), 4, config)[0][0] != one[0][0]


def test_more_room_slows_less_and_no_change_nothing(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["lab", "what-if", str(dump), "--what-if", "load=1.0", "--what-if", "policy=best-fit", "--seeds", "4"]
    assert main([*arguments, "--json"]) == 0
    printed = capsys.readouterr().out
    rows = {row["title"]: row for row in msgspec.json.decode(printed)["rows"]}
    mean = rows["Slowdown, mean"]
    assert mean["base"] == mean["cases"][0]
    assert mean["differences"][0]["value"] == 0
    assert mean["cases"][1]["value"] > mean["base"]["value"]  # all four on one node
    assert mean["cases"][1]["low"] <= mean["cases"][1]["value"] <= mean["cases"][1]["high"]
    assert main([*arguments, "--json"]) == 0
    assert capsys.readouterr().out == printed


def test_bad_input_is_one_line(dump: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--what-if", "zone-lost=q"], ["--what-if", "load=1", "--seeds", "0"]):
        assert main(["lab", "what-if", str(dump), *arguments]) == 2
        assert capsys.readouterr().err.count("\n") == 1
