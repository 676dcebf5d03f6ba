"""Spans of generated answers held against the limits of a model server's objective.

Servers write into a request's span what a histogram loses: which wait, which first token and how many tokens are of one
request. So several limits at once, goodput, are counted exactly. The convention of GenAI spans has usage, model and the
time to the first chunk; vLLM and SGLang add theirs. A failed request is bad; one without an attribute that a limit
needs is not counted, and the objective says which is missing.
Limits: an answer of a single token has no time per output token, and meets that limit.

Source: OpenTelemetry GenAI conventions, "Spans"; vllm-project/vllm, vllm/tracing (`gen_ai.latency.*`, seconds).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cotenant.model.traces.model_server import ModelGoal, ModelMeasure

FIRST_TOKEN = ("gen_ai.latency.time_to_first_token", "gen_ai.response.time_to_first_chunk")
QUEUE = ("gen_ai.latency.time_in_queue",)
TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
MODEL = ("gen_ai.response.model", "gen_ai.request.model")
_MAX_S, _MAX_TOKENS = 86_400.0, 10**9

Tags = Mapping[str, str]


class Unmeasured(Exception):
    """An attribute that a limit needs is missing, or no number."""


def judge_generation(goal: ModelGoal, tags: Tags, duration_ns: int, failed: bool) -> tuple[bool, int] | None:
    """Whether it is bad, and the time that a figure of the replica shows: that of the only limit, else the whole.
    None where it is of another model. Raises `Unmeasured`.
    """
    if goal.model and goal.model not in [tags[name] for name in MODEL if name in tags]:
        return None
    if failed:
        return True, duration_ns
    bad, shown_ns = False, duration_ns
    for measure, limit_us in goal.limits_us.items():
        taken_ns, parts = _taken(measure, tags, duration_ns)
        bad = bad or taken_ns > limit_us * 1000 * parts
        if len(goal.limits_us) == 1:
            shown_ns = taken_ns // max(1, parts)
    return bad, shown_ns


def judge_generations(
    goals: Sequence[ModelGoal | None],
    objective: NDArray[np.int64],
    duration_ns: NDArray[np.int64],
    bad: NDArray[np.bool_],
    tags_of: Callable[[int], Tags],
    failed: NDArray[np.bool_],
    unmeasured: Callable[[int, str], None],
) -> NDArray[np.bool_]:
    """Judge the pairs of span and objective whose objective has a goal: `duration_ns` and `bad` are set in place.
    Which pairs count. `tags_of` gives the attributes of a pair's span; `unmeasured` is told of pairs that cannot be
    judged.
    """
    counts = np.ones(objective.size, np.bool_)
    for pair, number in enumerate(objective.tolist()):
        goal = goals[number]
        if goal is None:
            continue
        try:
            judged = judge_generation(goal, tags_of(pair), int(duration_ns[pair]), bool(failed[pair]))
        except Unmeasured as missing:
            unmeasured(pair, str(missing))
            judged = None
        if judged is None:
            counts[pair] = False
        else:
            bad[pair], duration_ns[pair] = judged
    return counts


def _taken(measure: ModelMeasure, tags: Tags, duration_ns: int) -> tuple[int, int]:
    """The time, and of how many equal parts it is the sum: so the mean is compared without a division."""
    match measure:
        case ModelMeasure.TIME_TO_FIRST_TOKEN:
            return _time_ns(tags, FIRST_TOKEN), 1
        case ModelMeasure.QUEUE_TIME:
            return _time_ns(tags, QUEUE), 1
        case ModelMeasure.TIME_PER_OUTPUT_TOKEN:
            tokens = int(_number(tags, TOKENS, _MAX_TOKENS))
            return max(0, duration_ns - _time_ns(tags, FIRST_TOKEN)) if tokens > 1 else 0, max(1, tokens - 1)
        case _:
            return duration_ns, 1


def _time_ns(tags: Tags, names: tuple[str, ...]) -> int:
    return round(_number(tags, names, _MAX_S) * 1e9)


def _number(tags: Tags, names: tuple[str, ...], most: float) -> float:
    for name in names:
        if name in tags:
            try:
                found = float(tags[name])
            except ValueError:
                found = -1.0
            if 0 <= found <= most:
                return found
            raise Unmeasured(f"{name} is no number from 0 to {most:g}")
    raise Unmeasured(f"no {' or '.join(names)} in its spans")
