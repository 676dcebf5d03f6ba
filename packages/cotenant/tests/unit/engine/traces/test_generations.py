"""Spans of generated answers held against limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cotenant.engine.traces.generations import Unmeasured, judge_generation, judge_generations
from cotenant.model.traces.model_server import ModelGoal, ModelMeasure

FIRST, PER_TOKEN, QUEUE, DURATION = (
    ModelMeasure.TIME_TO_FIRST_TOKEN,
    ModelMeasure.TIME_PER_OUTPUT_TOKEN,
    ModelMeasure.QUEUE_TIME,
    ModelMeasure.DURATION,
)
TTFT, CHUNK, WAITED = (
    "gen_ai.latency.time_to_first_token",
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.latency.time_in_queue",
)
MS = 1_000_000


def judged(
    limits_us: dict[ModelMeasure, int], tags: dict[str, str], ms: int = 1000, failed: bool = False, **goal: Any
) -> Any:
    return judge_generation(ModelGoal(limits_us, **goal), tags, ms * MS, failed)


@pytest.mark.parametrize(
    ("limits", "tags", "bad", "shown_ms"),
    [
        ({DURATION: 1_000_000}, {}, False, 1000),
        ({DURATION: 999_999}, {}, True, 1000),
        ({FIRST: 200_000}, {TTFT: "0.2"}, False, 200),
        ({FIRST: 199_999}, {TTFT: "0.2", CHUNK: "9"}, True, 200),
        ({FIRST: 200_000}, {CHUNK: "0.3"}, True, 300),
        ({QUEUE: 50_000}, {WAITED: "0.05"}, False, 50),
        # 800 ms for eight tokens after the first
        ({PER_TOKEN: 100_000}, {TTFT: "0.2", "gen_ai.usage.output_tokens": "9"}, False, 100),
        ({PER_TOKEN: 99_999}, {TTFT: "0.2", "gen_ai.usage.completion_tokens": "9"}, True, 100),
        ({PER_TOKEN: 1}, {TTFT: "0.2", "gen_ai.usage.output_tokens": "1"}, False, 0),
        ({PER_TOKEN: 1}, {"gen_ai.usage.output_tokens": "0"}, False, 0),
        ({PER_TOKEN: 1}, {TTFT: "5", "gen_ai.usage.output_tokens": "9"}, False, 0),
        ({PER_TOKEN: 400_000}, {TTFT: "0.2", "gen_ai.usage.output_tokens": "2"}, True, 800),
        # of several limits the whole is shown, and one that does not hold suffices
        ({FIRST: 200_000, QUEUE: 10_000}, {TTFT: "0.2", WAITED: "0.01"}, False, 1000),
        ({FIRST: 200_000, QUEUE: 9_999}, {TTFT: "0.2", WAITED: "0.01"}, True, 1000),
        ({FIRST: 199_999, QUEUE: 10_000}, {TTFT: "0.2", WAITED: "0.01"}, True, 1000),
    ],
)
def test_limits(limits: dict[ModelMeasure, int], tags: dict[str, str], bad: bool, shown_ms: int) -> None:
    assert judged(limits, tags) == (bad, shown_ms * MS)


def test_a_failed_answer_is_bad_without_any_attribute() -> None:
    assert judged({FIRST: 1_000_000}, {}, failed=True) == (True, 1000 * MS)


def test_answers_of_another_model_do_not_count() -> None:
    asked, answered = {"gen_ai.request.model": "a"}, {"gen_ai.request.model": "a", "gen_ai.response.model": "b"}
    for tags, model, counts in (
        (asked, "a", True),
        (asked, "b", False),
        (answered, "a", True),
        (answered, "b", True),
        ({}, "a", False),
        ({}, "", True),
    ):
        assert (judged({DURATION: 1}, tags, failed=True, model=model) is not None) is counts


@pytest.mark.parametrize(
    ("limits", "tags", "said"),
    [
        ({FIRST: 1}, {}, f"no {TTFT} or {CHUNK} in its spans"),
        ({QUEUE: 1}, {WAITED: "soon"}, f"{WAITED} is no number from 0 to 86400"),
        ({QUEUE: 1}, {WAITED: "-0.1"}, f"{WAITED} is no number from 0 to 86400"),
        ({QUEUE: 1}, {WAITED: "86400.1"}, f"{WAITED} is no number from 0 to 86400"),
        ({QUEUE: 1}, {WAITED: "nan"}, f"{WAITED} is no number from 0 to 86400"),
        ({FIRST: 1}, {TTFT: "x", CHUNK: "0.1"}, f"{TTFT} is no number from 0 to 86400"),
        ({PER_TOKEN: 1}, {TTFT: "0.1"}, "no gen_ai.usage.output_tokens or gen_ai.usage.completion_tokens in its spans"),
    ],
)
def test_what_cannot_be_measured_is_said(limits: dict[ModelMeasure, int], tags: dict[str, str], said: str) -> None:
    with pytest.raises(Unmeasured) as error:
        judged(limits, tags)
    assert str(error.value) == said


def test_pairs_are_judged_in_place() -> None:
    goals = [None, ModelGoal({FIRST: 200_000}, model="a"), ModelGoal({DURATION: 500_000})]
    tags = [
        {},
        {TTFT: "0.3", "gen_ai.request.model": "a"},
        {TTFT: "0.3", "gen_ai.request.model": "b"},
        {"gen_ai.request.model": "a"},
        {},
        {},
    ]
    objective = np.array([0, 1, 1, 1, 2, 2])
    duration, bad = np.full(6, 400 * MS), np.array([True, False, True, True, True, False])
    failed = np.array([False] * 5 + [True])
    told: list[tuple[int, str]] = []
    counts = judge_generations(
        goals, objective, duration, bad, tags.__getitem__, failed, lambda pair, why: told.append((pair, why))
    )
    assert counts.tolist() == [True, True, False, False, True, True]
    assert bad.tolist() == [True, True, True, True, False, True]
    assert (duration // MS).tolist() == [400, 300, 400, 400, 400, 400]
    assert told == [(3, f"no {TTFT} or {CHUNK} in its spans")]
