"""Runs an experiment: arms in short blocks, in random order within each round, raw data stored, disturbed rounds
counted and left out.

On a shared machine, one arm measured after another shows the neighbours, not the arm. Each round runs every arm once,
in an order drawn from the seed; figures are ratios within a round; a block during which other work, or the hypervisor,
had too much of the plant's core, or that the experiment itself considers disturbed, is repeated; an interrupted run is
judged by its whole rounds; a round that is still disturbed, or that the experiment's own test rejects, is left out, and
others are run for it until enough count or a limit of time or rounds is reached. A check is decided where half of the
rounds are undisturbed in the arms that it rests on, else it neither passes nor fails, and says why in a sentence.
Limits: a check of all arms loses a whole round for one disturbed block.

How to add an experiment: a class that implements `Experiment` in a module of `studies/`, and a line in `registry.py`.
`prepare` creates groups by `site.make_plant(...)` and starts what runs through all rounds; `block` starts one arm's
loads (`site.start`), waits (`site.wait_until`), ends them (`site.stop`) and returns a plain JSON object with its
measurements; `judge` turns the counted rounds into figures, checks and pictures. What `block` leaves running is killed
with the groups, also when it raises. The regulated arm runs the agent itself (`site/agent_process.py`); an experiment
never writes a knob of the groups that it compares.

Source: interleaved blocks, log ratios and bootstrap as in randomised block designs; pass lines:
docs/guide/node-experiments.md.
"""

from __future__ import annotations

import json
import random
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Protocol

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import JsonMapping
from cotenant_lab.experiments.outcome import FigureCheck, Findings, Picture
from cotenant_lab.experiments.site.site import Conditions, Site, open_site

RAW = "raw.jsonl"
MAX_FOREIGN = 0.10  # of the plant's core
MAX_STOLEN = 0.15  # of the plant's core, by the hypervisor
MAX_TIMES = 3  # as many rounds, and as long, as on a quiet machine
_QUIET_S = 20.0
_AMOUNT = re.compile(r"[0-9]+(\.[0-9]+)?")

Record = JsonMapping  # what a block measured, as JSON


@dataclass(frozen=True, slots=True)
class ArmBlock:
    """One block of an arm. `again`: how many disturbed tries preceded it."""

    arm: str
    record: Record
    conditions: Conditions
    again: int = 0


@dataclass(frozen=True, slots=True)
class ExperimentRound:
    """Every arm once. `why_discarded` is empty for a round that counts."""

    number: int
    blocks: Mapping[str, ArmBlock]
    why_discarded: str = ""

    def record(self, arm: str) -> Record:
        """The record of one arm."""
        return self.blocks[arm].record


@dataclass(frozen=True, slots=True)
class ExperimentJudgement:
    """An experiment's conclusions from its rounds."""

    figures: JsonMapping  # included in the JSON object unchanged
    checks: Sequence[FigureCheck]
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()  # the table for a person
    notes: Sequence[str] = ()
    pictures: Sequence[Picture] = ()


class Experiment(Protocol):
    """One experiment."""

    @property
    def name(self) -> str:
        """The name on the command line."""
        ...

    @property
    def title(self) -> str:
        """A short title."""
        ...

    @property
    def arms(self) -> Sequence[str]:
        """The arms, in display order."""
        ...

    @property
    def block_s(self) -> float:
        """Approximate duration of one arm, for the remaining time."""
        ...

    def prepare(self, site: Site) -> None:
        """Create groups and start what runs through all rounds. Raises `Unsupported` where the machine cannot."""
        ...

    def block(self, site: Site, arm: str, seed: int) -> Record:
        """Run one arm once."""
        ...

    def disturbed(self, record: Record) -> str:
        """Why a block was too disturbed to count, by its own measurement; empty where it was not. It is then
        repeated.
        """
        ...

    def discard(self, rounds: Sequence[ExperimentRound]) -> Mapping[int, str]:
        """Rounds that the experiment's own test rejects: number to reason."""
        ...

    def judge(self, rounds: Sequence[ExperimentRound]) -> ExperimentJudgement:
        """Figures from the rounds that count; at least one."""
        ...


@dataclass(frozen=True, slots=True)
class BlockProgress:
    """Progress, reported before each block and at the end."""

    done: int
    total: int
    arm: str
    seconds_left: float


@dataclass(frozen=True, slots=True)
class ExperimentSettings:
    """How to run. `more_rounds`: at most this many further rounds are run for discarded ones, and after `max_s` no
    round and no second try begins.
    """

    rounds: int
    seed: int = 1
    max_foreign: float = MAX_FOREIGN
    max_stolen: float = MAX_STOLEN
    more_rounds: int | None = None  # None: `MAX_TIMES` as many in all
    max_s: float | None = None  # None: `MAX_TIMES` as long as without a disturbance
    quiet_s: float | None = (
        None  # how long a block waits for the plant's core to be free of other work; None: by its length
    )
    tries: int = 2  # of a disturbed block, before its round is left out

    def __post_init__(self) -> None:
        if not 1 <= self.rounds <= 1000:
            raise InvalidInput("--rounds", self.rounds, "1 to 1000")
        if self.max_s is not None and self.max_s <= 0:
            raise InvalidInput("--limit", self.max_s / 60, "minutes, above 0")

    def disturbed(self, conditions: Conditions) -> str:
        """Why the plant's core was too disturbed; empty where it was not."""
        if conditions.foreign_share > self.max_foreign and not conditions.may_be_used_idle:
            return f"others used {conditions.foreign_share:.0%} of the plant's core"
        if conditions.steal_share > self.max_stolen:
            return f"the hypervisor took {conditions.steal_share:.0%} of the plant's core"
        return ""

    @classmethod
    def once(cls, rounds: int, seed: int = 1) -> ExperimentSettings:
        """Each block once, whatever other work runs on the machine: no retries, no further rounds, little waiting
        for a quiet core.
        """
        return cls(rounds, seed, more_rounds=0, quiet_s=2.0, tries=1)

    @property
    def max_rounds(self) -> int:
        """The number of rounds including those that replace discarded ones."""
        return self.rounds * MAX_TIMES if self.more_rounds is None else self.rounds + self.more_rounds

    @property
    def min_rounds(self) -> int:
        """The number of rounds that have to count for a verdict."""
        return -(-self.rounds // 2)


@dataclass(slots=True)
class _Run:
    experiment: Experiment
    settings: ExperimentSettings
    raw: Path
    report: Callable[[BlockProgress], None]
    now_s: Callable[[], float]
    rounds: list[ExperimentRound] = field(default_factory=list)
    began_s: float = 0.0
    took_s: float = 0.0
    wanted: int = 0  # rounds
    cut: str = ""  # why it ended before its time; empty where it did not

    def all(self, site: Site) -> None:
        drawn = random.Random(self.settings.seed)
        self.experiment.prepare(site)
        number, self.wanted = 0, self.settings.rounds
        self.began_s = self.now_s()
        try:
            while number < self.wanted and not self._is_over():
                self._round(site, number, drawn, self.wanted)
                number += 1
                short = self.settings.rounds - sum(not round_.why_discarded for round_ in self.judged())
                if number == self.wanted and short > 0:
                    self.wanted = min(self.wanted + short, self.settings.max_rounds)
        except KeyboardInterrupt:
            if not self.rounds:
                raise
            self.cut = f"interrupted after {number} of {self.wanted} rounds"
        self.took_s = self.now_s() - self.began_s

    def _is_over(self) -> bool:
        self.took_s = self.now_s() - self.began_s
        max_s = self.settings.max_s
        if max_s is None:
            max_s = MAX_TIMES * self.settings.rounds * len(self.experiment.arms) * self.experiment.block_s
        return self.took_s >= max_s

    def judged(self, arms: Sequence[str] = ()) -> list[ExperimentRound]:
        """The rounds, with why each does not count for what rests on these arms; () = all."""
        whys = dict(self.experiment.discard(self.rounds))
        for round_ in self.rounds:
            for block in round_.blocks.values():
                if (not arms or block.arm in arms) and (why := self._disturbed(block)):
                    whys[round_.number] = f"{why} during {block.arm}"
        return [ExperimentRound(round_.number, round_.blocks, whys.get(round_.number, "")) for round_ in self.rounds]

    def decided(self, check: FigureCheck) -> FigureCheck:
        """The check by the rounds that are undisturbed in its arms; with the reason where they are too few."""
        judged = self.judged(check.arms)
        counted = [round_ for round_ in judged if not round_.why_discarded]
        if len(counted) < self.settings.min_rounds:
            return replace(check, why_not_decided=_why_not_decided(self.settings, judged, self.took_s, self.cut))
        if not check.arms:
            return check
        return next(entry for entry in self.experiment.judge(counted).checks if entry.what == check.what)

    def _round(self, site: Site, number: int, drawn: random.Random, wanted: int) -> None:
        arms = list(self.experiment.arms)
        drawn.shuffle(arms)
        seed = drawn.randrange(1 << 30)  # the same for all arms of a round: the same arrivals
        blocks: dict[str, ArmBlock] = {}
        for place, arm in enumerate(arms):
            done, total = number * len(arms) + place, wanted * len(arms)
            self.report(BlockProgress(done, total, arm, (total - done) * self.experiment.block_s))
            for again in range(self.settings.tries):
                blocks[arm] = self._block(site, arm, seed, again)
                line = {"round": number, "place": place, "seed": seed, **asdict(blocks[arm])}
                with self.raw.open("a") as file:
                    file.write(json.dumps(line) + "\n")
                if not self._disturbed(blocks[arm]) or self._is_over():
                    break
        self.rounds.append(ExperimentRound(number, blocks))

    def _disturbed(self, block: ArmBlock) -> str:
        return self.settings.disturbed(block.conditions) or self.experiment.disturbed(block.record)

    def _block(self, site: Site, arm: str, seed: int, again: int) -> ArmBlock:
        quiet_s = self.settings.quiet_s
        if quiet_s is None:
            quiet_s = max(_QUIET_S, self.experiment.block_s)  # to wait costs no more than a block that does not count
        site.wait_for_quiet(self.settings.max_foreign, quiet_s)
        with site.measured_conditions() as conditions:
            record = self.experiment.block(site, arm, seed)
            return ArmBlock(arm, record, conditions(), again)


def run(
    experiment: Experiment,
    settings: ExperimentSettings,
    folder: Path,
    report: Callable[[BlockProgress], None],
    opened: Callable[[], AbstractContextManager[Site]] = open_site,
    now_s: Callable[[], float] = monotonic,
) -> Findings:
    """Run it on this machine; raw data are written to `folder` as they come.

    Raises `Unsupported` where the machine cannot, `Permanent` where a load fails, `KeyboardInterrupt` for SIGINT,
    SIGTERM and SIGHUP before the first whole round; later what was measured is judged, and the findings say that it was
    interrupted. Nothing that it made is left in any case.
    """
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / RAW
    with interruptible():
        with opened() as site:
            raw.unlink(missing_ok=True)
            state = _Run(experiment, settings, raw, report, now_s)
            state.all(site)
        judged = state.judged()
    counted = [round_ for round_ in judged if not round_.why_discarded]
    # If every round was disturbed, all are shown, and decide nothing.
    shown = counted or judged
    judgement = experiment.judge(shown)
    return Findings(
        experiment=experiment.name,
        title=experiment.title,
        rounds=len(counted),
        discarded=tuple((round_.number, round_.why_discarded) for round_ in judged if round_.why_discarded),
        seed=settings.seed,
        figures=judgement.figures,
        checks=tuple(state.decided(check) for check in judgement.checks),
        columns=tuple(judgement.columns),
        rows=tuple(tuple(row) for row in judgement.rows),
        notes=(*judgement.notes, *([f"The run was {state.cut}."] if state.cut else [])),
        pictures=tuple(judgement.pictures),
        worst_foreign=max(block.conditions.foreign_share for round_ in shown for block in round_.blocks.values()),
        repeated=sum(block.again for round_ in judged for block in round_.blocks.values()),
        worst_steal=max(block.conditions.steal_share for round_ in shown for block in round_.blocks.values()),
    )


def _why_not_decided(settings: ExperimentSettings, judged: Sequence[ExperimentRound], took_s: float, cut: str) -> str:
    """One sentence for too few rounds that count: how many, and what most often was against it."""
    whys = [round_.why_discarded for round_ in judged if round_.why_discarded]
    counted = len(judged) - len(whys)
    if not whys:
        return f"{cut or 'ended early'}: {counted} count, fewer than the {settings.min_rounds} needed"
    kinds = Counter(_AMOUNT.sub("", why) for why in whys)
    kind, count = kinds.most_common(1)[0]
    example = next(why for why in reversed(whys) if _AMOUNT.sub("", why) == kind)
    return (
        f"{f'{cut}; ' if cut else ''}{counted} of {len(judged)} rounds in {took_s / 60:.0f} min were undisturbed, "
        f"fewer than the {settings.min_rounds} needed; "
        f"most often ({count}): {example}"
    )


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP interrupt like Ctrl-C, so that groups and files are removed."""

    def stop(*_: object) -> None:
        for signals in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(signals, signal.SIG_IGN)  # the clean-up is not interrupted
        raise KeyboardInterrupt

    before = {signals: signal.signal(signals, stop) for signals in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)}
    try:
        yield
    finally:
        for signals, handler in before.items():
            signal.signal(signals, handler)
