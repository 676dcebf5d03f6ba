"""`cotenant lab tune` on a workload that costs nothing: figures follow a formula in which a larger packing_weight
carries more load.
"""

import json
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.policy.placement.profile_file import parse_profile

pytestmark = pytest.mark.usefixtures("fake_workloads")

SEARCH = "lab tune --workload fake --policy cotenant --knob packing_weight=0:1 --trials 12 --load 0.9 --jobs 1"


def tune(out: Path, more: str = "") -> int:
    return main([*SEARCH.split(), "--seeds", "100-102", "--held-out", "20-25", "--out", str(out), *more.split()])


@pytest.mark.slow
def test_a_search_ends_with_a_front_a_judgement_a_page_and_a_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    assert tune(tmp_path) == 0
    said = capsys.readouterr().out
    assert "is better than the defaults on held-out seeds" in said
    assert "fits batch by predicted use" in said  # cotenant; a scheduler would refuse the profile
    read = parse_profile((tmp_path / "profile.yaml").read_bytes(), "profile.yaml")
    assert (read.name, read.knobs.packing_weight > 0.29) == ("cotenant", True)
    page = (tmp_path / "report.html").read_text()
    for heading in ("Judged on held-out seeds", "Front on the tuning seeds", "To reproduce these figures"):
        assert heading in page


@pytest.mark.slow
def test_the_same_search_is_continued_and_gives_the_same_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("optuna")
    assert tune(tmp_path, "--json") == 0
    first = json.loads(capsys.readouterr().out)
    stored = sorted((tmp_path / "runs").glob("*.json"))
    for path in stored[::2]:
        path.unlink()  # as if it had been killed
    assert tune(tmp_path, "--json") == 0
    assert json.loads(capsys.readouterr().out) == first
    assert sorted((tmp_path / "runs").glob("*.json")) == stored
    assert [trial["trial"] for trial in first["trials"]] == list(range(12))
    assert first["trials"][0]["knobs"] == {"packing_weight": 0.29}
    assert first["recommended"] == first["selected"] != 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("--held-out 102-105", "--held-out"),
        ("--seeds 9-3", "--seeds"),
        ("--trials 1", "--trials"),
        ("--policy cotenan", "--policies"),
        ("--policy tetris", "--policy"),
        ("--policy first-fit", "first-fit"),
        ("--knob packing_weight=1:0", "--knob"),
        ("--jobs 0", "--jobs"),
        ("--workload absent.yaml", "--workload"),
        ("--pressure-law cubic", "--pressure-law"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    more: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = dict(zip(SEARCH.split()[2::2], SEARCH.split()[3::2], strict=True))
    words |= dict(zip(more.split()[::2], more.split()[1::2], strict=True))
    if more == "--policy first-fit":
        del words["--knob"]
    out = tmp_path / "out"
    arguments = ["lab", "tune", *(word for pair in words.items() for word in pair), "--out", str(out)]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert says in said.err
    assert not out.exists()
