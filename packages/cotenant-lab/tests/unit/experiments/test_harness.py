"""The harness's rounds: order, seeds, discarded rounds, raw data. The site is a fake; tests/node has the real one."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.experiments import harness
from cotenant_lab.experiments.harness import (
    BlockProgress,
    ExperimentJudgement,
    ExperimentRound,
    ExperimentSettings,
    Record,
)
from cotenant_lab.experiments.outcome import CheckVerdict, FigureCheck
from cotenant_lab.experiments.site.site import Conditions, Site


class Calm(Site):
    """A site on which others use what `foreign` says, block by block; the last stays."""

    def __init__(self, *foreign: float, stolen: float = 0.0) -> None:  # no groups, no cores
        self._foreign = list(foreign) or [0.0]
        self._stolen = stolen
        self.waited_s: list[float] = []
        self.now_s = 0.0  # each block takes two seconds of it

    def wait_for_quiet(self, max_foreign: float, timeout_s: float) -> None:
        self.waited_s.append(timeout_s)
        self.now_s += 2.0

    @contextmanager
    def measured_conditions(self) -> Iterator[Callable[[], Conditions]]:
        share = self._foreign.pop(0) if len(self._foreign) > 1 else self._foreign[0]
        yield lambda: Conditions(1.0, share, self._stolen, None)


@dataclass
class Counting:
    """An experiment that only remembers what it was asked."""

    bad: Mapping[int, str] = field(default_factory=dict)
    restless: str = ""  # the arm whose blocks it calls disturbed
    asked: list[tuple[str, int]] = field(default_factory=list)
    name: str = "counting"
    title: str = "Counting"
    arms: Sequence[str] = ("a", "b", "c")
    block_s: float = 2.0

    def prepare(self, site: Site) -> None:
        self.asked.append(("prepare", 0))

    def block(self, site: Site, arm: str, seed: int) -> Record:
        self.asked.append((arm, seed))
        return {"seed": seed, "arm": arm}

    def disturbed(self, record: Record) -> str:
        return "no calm" if record["arm"] == self.restless else ""

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        return {number: why for number, why in self.bad.items() if number < len(rounds)}

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        return ExperimentJudgement(
            {"judged": [round_.number for round_ in rounds]}, [FigureCheck("rounds", len(rounds), 1, at_least=True)]
        )


def run(
    folder: Path, experiment: Counting, site: Calm, settings: ExperimentSettings
) -> tuple[harness.Findings, list[BlockProgress]]:
    @contextmanager
    def opened() -> Iterator[Site]:
        yield site

    steps: list[BlockProgress] = []
    return harness.run(experiment, settings, folder, steps.append, opened, lambda: site.now_s), steps


def test_every_round_runs_every_arm_once_in_drawn_order_with_one_seed(tmp_path: Path) -> None:
    experiment = Counting()
    run(tmp_path, experiment, Calm(), ExperimentSettings(20, seed=3))
    assert experiment.asked[0] == ("prepare", 0)
    rounds = [experiment.asked[1 + 3 * n : 4 + 3 * n] for n in range(20)]
    assert all(
        {arm for arm, _ in group} == {"a", "b", "c"} and len({seed for _, seed in group}) == 1 for group in rounds
    )
    assert len({tuple(arm for arm, _ in group) for group in rounds}) == 6  # all orders turn up
    again = Counting()
    run(tmp_path, again, Calm(), ExperimentSettings(20, seed=3))
    assert again.asked == experiment.asked


def test_raw_data_has_one_line_per_block(tmp_path: Path) -> None:
    run(tmp_path, Counting(), Calm(0.02), ExperimentSettings(2))
    lines = [json.loads(line) for line in (tmp_path / harness.RAW).read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 0, 0, 1, 1, 1]
    assert lines[0]["conditions"]["foreign_share"] == 0.02
    assert lines[0]["record"] == {"seed": lines[0]["seed"], "arm": lines[0]["arm"]}


def test_disturbed_rounds_are_left_out_counted_and_repeated(tmp_path: Path) -> None:
    site = Calm(0.0, 0.5, 0.6, 0.0, 0.0)  # somebody else worked during both tries of one block of the first round
    outcome, _ = run(tmp_path, Counting({2: "its own test"}), site, ExperimentSettings(3, tries=2))
    assert outcome.figures["judged"] == [1, 3, 4]
    assert (outcome.rounds, [number for number, _ in outcome.discarded]) == (3, [0, 2])
    assert "60%" in outcome.discarded[0][1]
    assert outcome.discarded[1][1] == "its own test"
    assert outcome.worst_foreign == 0.0


def test_a_disturbed_block_is_repeated_with_the_same_seed_before_its_round_is_lost(tmp_path: Path) -> None:
    experiment = Counting()
    outcome, _ = run(tmp_path, experiment, Calm(0.0, 0.5, 0.5, 0.02, 0.0), ExperimentSettings(1, tries=3))
    arms = experiment.asked[1:]
    assert len(arms) == 5
    assert arms[1] == arms[2] == arms[3] != arms[4]
    assert (outcome.rounds, outcome.repeated, outcome.worst_foreign) == (1, 2, 0.02)
    assert outcome.to_object()["blocks_repeated"] == 2
    assert len((tmp_path / harness.RAW).read_text().splitlines()) == 5  # what was tried is kept


@dataclass
class Cut(Counting):
    """Is interrupted in the block of this number, from 0."""

    at: int = 0

    def block(self, site: Site, arm: str, seed: int) -> Record:
        if len(self.asked) == 1 + self.at:
            raise KeyboardInterrupt
        return super().block(site, arm, seed)


def test_an_interrupted_run_is_judged_by_its_whole_rounds(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, Cut(at=5), Calm(), ExperimentSettings(2))  # in the last of six blocks
    assert outcome.figures["judged"] == [0]
    assert outcome.verdict is CheckVerdict.PASSED  # half of the rounds are enough
    assert outcome.notes == ("The run was interrupted after 1 of 2 rounds.",)
    outcome, _ = run(tmp_path, Cut(at=5), Calm(), ExperimentSettings(4))
    assert outcome.verdict is CheckVerdict.NOT_DECIDED
    assert outcome.why_not_decided == "interrupted after 1 of 4 rounds: 1 count, fewer than the 2 needed"
    outcome, _ = run(tmp_path, Cut(at=5, restless="a"), Calm(), ExperimentSettings(4, tries=1))
    assert outcome.why_not_decided.startswith("interrupted after 1 of 4 rounds; 0 of 1 rounds in ")


def test_a_run_without_a_whole_round_stays_interrupted(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, Cut(at=2), Calm(), ExperimentSettings(2))


def test_stolen_time_disturbs_like_foreign_use(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, Counting(), Calm(stolen=0.4), ExperimentSettings(1, tries=1))
    assert outcome.rounds == 0
    assert "the hypervisor took 40% of the plant's core during" in outcome.discarded[0][1]


def test_a_block_disturbed_by_its_own_measure_is_repeated_and_its_round_left_out(tmp_path: Path) -> None:
    experiment = Counting(restless="b")
    outcome, _ = run(tmp_path, experiment, Calm(), ExperimentSettings(1, tries=2, more_rounds=0))
    assert sorted(arm for arm, _ in experiment.asked[1:]) == ["a", "b", "b", "c"]
    assert (outcome.rounds, outcome.repeated, outcome.discarded) == (0, 1, ((0, "no calm during b"),))


def test_no_more_rounds_are_added_than_allowed(tmp_path: Path) -> None:
    outcome, steps = run(tmp_path, Counting(), Calm(0.9), ExperimentSettings(3, more_rounds=2))
    assert (outcome.rounds, len(outcome.discarded)) == (0, 5)
    assert outcome.verdict is CheckVerdict.NOT_DECIDED  # nothing counted: nothing is proved, whatever the checks say
    assert outcome.checks[0].passed
    assert outcome.to_object()["discarded"] == 5
    assert steps[0] == BlockProgress(0, 9, steps[0].arm, 18.0)


def test_on_a_busy_machine_rounds_are_run_until_enough_count(tmp_path: Path) -> None:
    busy = [0.0, 0.9, 0.9, 0.0] * 5  # five rounds, each with a block that is disturbed twice
    outcome, _ = run(tmp_path, Counting(), Calm(*busy, 0.0), ExperimentSettings(3))
    assert (outcome.rounds, len(outcome.discarded)) == (3, 5)
    assert outcome.verdict is CheckVerdict.PASSED


@pytest.mark.parametrize(
    ("quiet_blocks", "counted", "verdict"),
    [
        (0, 0, CheckVerdict.NOT_DECIDED),
        (3, 1, CheckVerdict.NOT_DECIDED),
        (6, 2, CheckVerdict.PASSED),
        (99, 4, CheckVerdict.PASSED),
    ],
)
def test_a_verdict_needs_half_of_the_rounds(
    tmp_path: Path, quiet_blocks: int, counted: int, verdict: CheckVerdict
) -> None:
    site = Calm(*[0.0] * quiet_blocks, 0.31)
    outcome, _ = run(tmp_path, Counting(), site, ExperimentSettings(4, tries=1))
    assert (outcome.rounds, outcome.verdict) == (counted, verdict)
    told = outcome.to_object()
    assert (told["verdict"], told["passed"]) == (verdict.value, verdict is CheckVerdict.PASSED)
    (check,) = told["checks"]
    decided = verdict is not CheckVerdict.NOT_DECIDED
    assert (check["verdict"], check["passed"]) == (verdict.value, True if decided else None)
    assert bool(told["why_not_decided"]) is not decided


def test_why_it_is_not_decided_is_one_sentence(tmp_path: Path) -> None:
    outcome, _ = run(tmp_path, Counting(restless="b"), Calm(0.0), ExperimentSettings(2, tries=1, more_rounds=1))
    assert outcome.why_not_decided == (
        "0 of 3 rounds in 0 min were undisturbed, fewer than the 1 needed; most often (3): no calm during b"
    )
    outcome, _ = run(tmp_path, Counting({0: "its own test, 5 of 7"}), Calm(), ExperimentSettings.once(1))
    assert outcome.why_not_decided.endswith("most often (1): its own test, 5 of 7")


def test_a_failed_check_of_rounds_that_count_fails(tmp_path: Path) -> None:
    class Failing(Counting):
        def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
            return ExperimentJudgement({}, [FigureCheck("a", 1.0, 2.0, at_least=True), FigureCheck("b", 1.0, 2.0)])

    outcome, _ = run(tmp_path, Failing(), Calm(), ExperimentSettings(1))
    verdicts = [outcome.verdict, *(check.verdict for check in outcome.checks)]
    assert verdicts == [CheckVerdict.FAILED, CheckVerdict.FAILED, CheckVerdict.PASSED]
    outcome, _ = run(tmp_path, Failing(), Calm(0.5), ExperimentSettings.once(1))
    assert {outcome.verdict, *(check.verdict for check in outcome.checks)} == {CheckVerdict.NOT_DECIDED}


def test_a_check_rests_on_its_own_arms(tmp_path: Path) -> None:
    class Parts(Counting):
        def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
            least = len(rounds)
            by_arm = [FigureCheck(arm, least, 4, at_least=True, arms=(arm,)) for arm in self.arms]
            return ExperimentJudgement(
                {},
                [*by_arm, FigureCheck("all", least, 4, at_least=True), FigureCheck("a, c", least, 4, arms=("a", "c"))],
            )

    outcome, _ = run(tmp_path, Parts(restless="b"), Calm(), ExperimentSettings(4, tries=1, more_rounds=0))
    verdicts = {check.what: check.verdict for check in outcome.checks}
    assert outcome.rounds == 0
    assert verdicts == {
        "a": CheckVerdict.PASSED,
        "b": CheckVerdict.NOT_DECIDED,
        "c": CheckVerdict.PASSED,
        "all": CheckVerdict.NOT_DECIDED,
        "a, c": CheckVerdict.PASSED,
    }
    assert outcome.verdict is CheckVerdict.NOT_DECIDED
    assert outcome.why_not_decided.endswith("most often (4): no calm during b")


def test_idle_time_that_others_may_use_is_no_disturbance() -> None:
    settings = ExperimentSettings(1)
    assert "others used 60%" in settings.disturbed(Conditions(1.0, 0.6, 0.0, None))
    assert settings.disturbed(Conditions(1.0, 0.6, 0.0, None, may_be_used_idle=True)) == ""
    assert "hypervisor" in settings.disturbed(Conditions(1.0, 0.6, 0.4, None, may_be_used_idle=True))


@pytest.mark.parametrize(("max_s", "rounds"), [(None, 3), (60.0, 5), (13.0, 2), (0.1, 1)])
def test_no_round_and_no_second_try_begins_after_the_limit(tmp_path: Path, max_s: float | None, rounds: int) -> None:
    site = Calm(0.9)
    settings = ExperimentSettings(2, max_s=max_s, tries=2)
    outcome, _ = run(tmp_path, Counting(), site, settings)
    assert len(outcome.discarded) == rounds
    assert outcome.repeated == {None: 9, 60.0: 15, 13.0: 3, 0.1: 0}[max_s]
    assert outcome.verdict is CheckVerdict.NOT_DECIDED


def test_a_block_waits_for_quiet_as_long_as_it_would_take(tmp_path: Path) -> None:
    for block_s, settings, waits_s in (
        (2.0, ExperimentSettings(1), 20.0),
        (75.0, ExperimentSettings(1), 75.0),
        (75.0, ExperimentSettings.once(1), 2.0),
    ):
        site = Calm()
        run(tmp_path, Counting(block_s=block_s), site, settings)
        assert set(site.waited_s) == {waits_s}


def test_a_limit_of_no_time_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--limit"):
        ExperimentSettings(1, max_s=0.0)


@pytest.mark.parametrize("rounds", [0, -1, 1001])
def test_rounds_out_of_range_are_refused(rounds: int) -> None:
    with pytest.raises(InvalidInput, match="--rounds"):
        ExperimentSettings(rounds)


def test_a_check_that_could_not_be_measured_does_not_pass() -> None:
    assert not FigureCheck("x", None, 1.0).passed
    assert not FigureCheck("x", float("nan"), 1.0, at_least=True).passed
    assert FigureCheck("x", 1.0, 1.0).passed
    assert FigureCheck("x", 1.0, 1.0, at_least=True).passed
    assert not FigureCheck("x", 1.1, 1.0).passed
