"""Recorded requests: what a replay keeps of them, and files as Azure publishes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.gpuworld.arrivals import draw_requests, due_by_minute, rate_by_minute
from cotenant_lab.gpuworld.config import GpuWorldConfig, draw
from cotenant_lab.gpuworld.request_trace import RequestTrace, read_requests, request_trace
from cotenant_lab.traces import read_table

HEAD = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
SHORT = GpuWorldConfig(day_s=600, peak_replicas=2)


def recorded(count: int = 200) -> RequestTrace:
    """Pairs of requests, a millisecond apart, once a second; lengths are their numbers."""
    at = np.arange(count) // 2 * 1_000_000 + np.arange(count) % 2 * 1000
    return request_trace(at, np.arange(count) + 1, np.arange(count) + 5)


def test_gaps_are_in_mean_gaps_and_add_up_to_the_count() -> None:
    trace = recorded()
    assert trace.gaps.sum() == pytest.approx(len(trace.gaps))
    assert trace.gaps[1] < 0.01 < trace.gaps[2]


def test_a_part_begins_anywhere_and_goes_on_at_the_begin() -> None:
    trace = recorded(100)
    at, rows = trace.from_request(90, 250.0)
    assert rows[:12].tolist() == [*range(90, 100), 0, 1]
    assert (np.diff(at) > 0).all()
    assert at[-1] < 250.0
    assert 245 <= len(rows) <= 255


def test_requests_in_any_order_become_one_stream() -> None:
    at = np.arange(200) * 1000
    mixed = np.random.default_rng(1).permutation(200)
    trace = request_trace(at[mixed], mixed + 1, mixed * 0)
    assert trace.prompt.tolist() == list(range(1, 201))
    assert set(trace.output.tolist()) == {1}, "an answer has a token"


def test_a_day_has_the_day_s_rate_and_the_recording_s_clusters_and_lengths() -> None:
    config = replace(SHORT, requests=recorded())
    seen = draw(config, 3)
    found = draw_requests(config, seen, np.random.default_rng(3))
    due = due_by_minute(rate_by_minute(config, np.random.default_rng(3)))
    assert len(found.arrive_us) == pytest.approx(due[-1], abs=3)
    assert ((found.output - found.prompt) == 4).all(), "prompt and answer of one request"
    steps = np.diff(found.prompt)
    assert set(steps.tolist()) <= {1, -199}, "in their order"
    gaps = np.diff(found.arrive_us)
    assert np.median(gaps[gaps > np.median(gaps)]) > 100 * np.median(gaps[gaps <= np.median(gaps)])
    other = draw_requests(config, draw(config, 4), np.random.default_rng(4))
    assert other.prompt[0] != found.prompt[0]


def test_without_a_recording_lengths_are_drawn_as_before() -> None:
    found = draw_requests(SHORT, draw(SHORT, 3), np.random.default_rng(3))
    assert found.prompt.max() <= SHORT.max_prompt


@pytest.mark.parametrize(("count", "step", "words"), [(99, 1000, "at least 100"), (150, 0, "over some time")])
def test_too_few_or_all_at_once_is_refused(count: int, step: int, words: str) -> None:
    ones = np.ones(count, np.int64)
    with pytest.raises(InvalidInput, match=words):
        request_trace(np.arange(count) * step, ones, ones)


def written(path: Path, count: int, second: str) -> Path:
    lines = [f"2023-11-16 18:{at // 60:02d}:{at % 60:02d}.{second}00000,{at + 10},{at + 1}" for at in range(count)]
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return path


def test_files_are_one_stream_each_from_its_first_request(tmp_path: Path) -> None:
    first = written(tmp_path / "AzureLLMInferenceTrace_code.csv", 80, "25")
    second = written(tmp_path / "AzureLLMInferenceTrace_conv.csv", 60, "75")
    trace = read_requests([first, second])
    assert len(trace.gaps) == 140
    assert trace.prompt[:4].tolist() == [10, 10, 11, 11]


def test_times_of_both_years_and_rows_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "AzureLLMInferenceTrace_week.csv"
    path.write_text(
        HEAD
        + "2023-11-16 18:15:46.6805900,374,44\n"
        + "2024-05-10 00:00:00.009930+00:00,10,0\n"
        + "2024-05-10T00:00:01Z,10,3\n"
        + "yesterday,10,3\n"
        + "2024-13-40 00:00:01,10,3\n"
        + "2024-05-10 00:00:01,0,3\n"
    )
    rows, report = read_table("azure-llm", "requests", path)
    assert rows["GeneratedTokens"].to_list() == [44, 0, 3]
    assert {bad.kind: bad.rows for bad in report.tables[0].bad} == {"not a time": 2, "below the allowed range": 1}
