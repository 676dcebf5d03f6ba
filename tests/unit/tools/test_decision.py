"""`python -m tools.decision` profiles decisions, and shows the calls of one."""

from __future__ import annotations

import pstats
import sys
from pathlib import Path

import pytest
from tools import decision


@pytest.mark.slow
def test_a_profile_has_every_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "decisions.pstats"
    monkeypatch.setattr(sys, "argv", ["decision", "--nodes", "10", "--pods", "7", "--out", str(out)])
    assert decision.main() == 0
    assert "tottime" in capsys.readouterr().out
    stats = pstats.Stats(str(out)).stats  # type: ignore[attr-defined]
    calls = {(Path(file).name, name): found[0] for (file, _, name), found in stats.items()}
    assert calls["cluster.py", "pod_seen"] == calls["cluster.py", "bound"] == 7


@pytest.mark.slow
def test_the_tree_of_one_decision_goes_from_the_event_to_the_bind() -> None:
    cluster = decision.engine("least-allocated", 5)
    decision.decide(cluster, 0)
    lines = decision.tree(cluster, 1)
    methods = [line.split()[0] for line in lines]
    assert methods.index("Cluster.pod_seen") < methods.index("Cluster.decide") < methods.index("Cluster.bound")
    assert "  Pods.pod_seen  engine/cycle/pods.py" in lines
    assert sys.getprofile() is None
