"""`cotenant lab tune` on a workload that costs nothing: figures follow a formula in which a larger packing_weight
carries more load.
"""

import json
from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.policy.placement.profile_file import parse_profile
from cotenant_lab.provenance import Provenance
from cotenant_lab.report.tuning_page import TuningFacts, choices, render
from cotenant_lab.statistics import Interval
from cotenant_lab.tuning.held_out import JudgedTrial, Tuned
from cotenant_lab.tuning.search import FoundTrials, TuningTrial

pytestmark = pytest.mark.usefixtures("fake_workloads")

ORIGIN = Provenance("cotenant lab tune", "1", "0", "3.11", (), "machine", 2, 1)
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
    assert "A scheduler refuses these files" in page
    for file in sorted((tmp_path / "profiles").iterdir()):
        assert f"profiles/{file.name}" in page
        assert parse_profile(file.read_bytes(), file.name).name == "cotenant"


def test_a_point_of_the_front_is_taken_by_the_command_beside_it() -> None:
    trials = tuple(TuningTrial(number, (("spread_weight", 0.1 * number),), (0.5, 0.9, 0.01)) for number in range(4))
    found = FoundTrials(trials, (), 0, "4")
    even = tuple(Interval(value, 0.0, 2) for value in (0.5, 0.9, 0.01))
    judged = (JudgedTrial(trials[0], even, even, "defaults"), JudgedTrial(trials[2], even, even, "worse"))
    tuned = Tuned(found, (0, 1, 2), judged, 0, 0, ())
    facts = TuningFacts("fake", "founding", "1-2", "3-4", "0.9", (("spread_weight", 0.0),), ORIGIN)
    page = render(tuned, facts)
    assert [trial.number for trial in choices(tuned)] == [1, 2]
    for number, verdict in ((1, "not judged on held-out seeds"), (2, "worse")):
        assert f"cotenant scheduler --profile profiles/trial-{number}.yaml" in page
        assert verdict in page
    assert "trial-3" not in page


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
