"""What `cotenant explain shadow` prints, in a hundred columns."""

from __future__ import annotations

from math import nan

import msgspec
import pytest

from cotenant.cli.ask import explain_shadow
from cotenant.model.decisions.shadow import (
    CountedPods,
    Difference,
    Followed,
    NodeSignal,
    ShadowOutcome,
    ShadowPicture,
    ShadowReport,
    Worse,
)


def report() -> ShadowReport:
    name = "a-namespace-of-many-letters/a-pod-of-a-deployment-with-a-long-name-7c9f8d-x2x2x"
    words = "node-2 is ahead of node-1 by 3: +2 NodeResourcesFit, +1 ImageLocality"
    difference = Difference(
        60.0, name, ShadowOutcome.OTHER_NODE, "node-1", "node-2", ShadowPicture.AT_BIND, "x", words, behind=nan
    )
    return ShadowReport(
        of=("default-scheduler",),
        profile="cotenant",
        since_s=0.0,
        at_s=120.0,
        nodes=5000,
        outcomes=(CountedPods("agreed", 3), CountedPods("other_node", 1), CountedPods("deleted", 2)),
        at_bind=4,
        reasons=(("other_node", "NodeResourcesFit", 1),),
        pending=(CountedPods("waits", 7), CountedPods("places", 0)),
        followed=((NodeSignal.PRESSURE, Worse.REAL, 1),),
        window_s=600.0,
        waiting_to_follow=0,
        judged=10,
        judging_cpu_s=0.02,
        share=0.5,
        put_off=2,
        forgotten=1,
        differences=(difference,),
        came=(Followed(1.0, name, "node-1", "node-2", ((NodeSignal.PRESSURE, Worse.REAL),)),),
    )


def test_the_text_says_every_part_in_a_hundred_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    explain_shadow.show(report(), False)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert "3 of 4 pods (75.0 %)" in text
    assert "we would let wait, too" in text
    assert "pressure (memory, disk, pids)" in text
    assert "2 binds came when there was none left; 1 pod was more than are remembered" in " ".join(text.split())


def test_json_is_what_was_answered(capsys: pytest.CaptureFixture[str]) -> None:
    explain_shadow.show(report(), True)
    answer = msgspec.json.decode(capsys.readouterr().out)
    assert answer["differences"][0]["behind"] is None  # NaN: it was not computed
    assert answer["outcomes"][0] == {"what": "agreed", "pods": 3}
