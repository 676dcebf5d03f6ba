"""The pages of model servers: each release by its own names, within bounds, and no near miss taken for a measure."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.servers.model_servers import RELEASES, page

from cotenant.drivers.modelserver.exposition import MAX_LINE, MAX_LINES, MAX_SERIES, read_exposition
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import ModelMeasure

VLLM = page("vllm-0.11", {"timeToFirstToken": (0.03, 0.3)})


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
@given(st.lists(st.floats(0.0001, 500.0), max_size=40))
def test_each_release_is_read_by_its_names_and_counts_exactly_at_its_edges(release: str, values: list[float]) -> None:
    served = RELEASES[release]
    reading = read_exposition(page(release, dict.fromkeys(served.histograms, values)))
    assert reading.server == release.partition("-")[0]
    assert {histogram.measure for histogram in reading.histograms} == {
        ModelMeasure(measure) for measure in served.histograms if measure
    }
    for histogram in reading.histograms:
        edges = [edge for edge in served.histograms[histogram.measure][1] if edge > 0]
        assert histogram.total == len(values)
        assert histogram.model == ("llama" if "llama" in served.labels else "")
        assert histogram.edges_us == tuple(round(edge / served.per_s * 1e6) for edge in edges)
        assert histogram.at_most == tuple(sum(value * served.per_s <= edge for value in values) for edge in edges)


def test_the_engine_behind_triton_counts_and_not_its_front() -> None:
    reading = read_exposition(page("vllm-on-triton", {"": (3.0,) * 9, "timeToFirstToken": (0.03, 0.3)}))
    (first,) = [one for one in reading.histograms if one.measure is ModelMeasure.TIME_TO_FIRST_TOKEN]
    assert (reading.server, first.model, first.total, reading.waiting) == ("vllm", "llama", 2, 7)


def test_what_was_observed_at_each_chunk_is_no_time_of_a_request_and_no_gap() -> None:
    reading = read_exposition(page("sglang-0.4", {"": (0.03,), "timeToFirstToken": (0.3,)}))
    assert {one.measure for one in reading.histograms} == {ModelMeasure.TIME_TO_FIRST_TOKEN, ModelMeasure.DURATION}


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_is_recognised(release: str) -> None:
    assert read_exposition(page(release, {})).server == release.partition("-")[0]


def test_an_old_and_a_new_name_of_the_same_observations_count_once() -> None:
    both = read_exposition(page("vllm-0.11", {"interTokenLatency": (0.02,) * 5}))
    (found,) = [one for one in both.histograms if one.measure is ModelMeasure.INTER_TOKEN_LATENCY]
    assert found.total == 5


def test_engines_of_one_server_are_series_of_their_own() -> None:
    second = "\n".join(
        line.replace('engine="0"', 'engine="1"') for line in VLLM.split("\n") if "time_to_first_token" in line
    )
    reading = read_exposition(VLLM + second)
    assert sorted(
        histogram.series for histogram in reading.histograms if histogram.measure is ModelMeasure.TIME_TO_FIRST_TOKEN
    ) == ["engine=0,model_name=llama", "engine=1,model_name=llama"]


def test_of_workers_that_serve_a_request_together_the_first_counts_it() -> None:
    edges = ("0.1", 1), ("+Inf", 3)
    shown = [(0, 0, 0), (0, 1, 0), (1, 0, 0), (10, 0, 1), (9, 0, 1)]  # ranks: tensor, pipeline, data
    lines = []
    for tensor, pipeline, data in shown:
        ranks = f'model_name="llama",tp_rank="{tensor}",pp_rank="{pipeline}",dp_rank="{data}"'
        lines += [f'sglang:queue_time_seconds_bucket{{{ranks},le="{edge}"}} {count}' for edge, count in edges]
        lines.append(f"sglang:num_queue_reqs{{{ranks}}} 2")
    reading = read_exposition("\n".join(lines))
    assert [histogram.series for histogram in reading.histograms] == [
        "dp_rank=0,model_name=llama,pp_rank=0,tp_rank=0",
        "dp_rank=1,model_name=llama,pp_rank=0,tp_rank=9",
    ]
    assert reading.waiting == 4


def test_what_a_server_says_of_itself() -> None:
    reading = read_exposition(page("sglang-0.5", {}, started_s=7.5, tokens=1234.0))
    assert (reading.started_s, reading.generated_tokens, reading.running, reading.waiting) == (7.5, 1234, 3, 7)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no metric of a model server"),
        ("node_load1 3\n" * 10, "no metric of a model server"),
        ("vllm:x 1\n" * (MAX_LINES + 1), "lines"),
        (f'vllm:time_to_first_token_seconds_bucket{{le="1",x="{"y" * 500_000}"}} 1\n', f"at most {MAX_LINE}"),
        ('vllm:time_to_first_token_seconds_bucket{le="1"} 1\n', "the last infinite"),
        ('vllm:time_to_first_token_seconds_bucket{le="+Inf"} 1.5\n', "whole numbers"),
        ('vllm:time_to_first_token_seconds_bucket{le="+Inf"} NaN\n', "whole numbers"),
        ('vllm:time_to_first_token_seconds_bucket{le="+Inf"} -1\n', "whole numbers"),
        ('vllm:time_to_first_token_seconds_bucket{le="+Inf"} 1e300\n', "whole numbers"),
        ('vllm:time_to_first_token_seconds_bucket{le="x"} 1\n', "a number"),
        ('vllm:time_to_first_token_seconds_bucket{le="nan"} 1\n', "a number"),
        ('vllm:time_to_first_token_seconds_bucket{le="+Inf" 1\n', "text format"),
        ("vllm:time_to_first_token_seconds_bucket\n", "text format"),
        (
            'vllm:time_to_first_token_seconds_bucket{le="1"} 2\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 1\n',
            "do not fall",
        ),
        (
            "".join(
                f'vllm:time_to_first_token_seconds_bucket{{le="+Inf",engine="{engine}"}} 1\n'
                for engine in range(MAX_SERIES + 1)
            ),
            "series",
        ),
    ],
)
def test_a_page_out_of_bounds_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        read_exposition(text)


@pytest.mark.slow
@given(st.text(max_size=200))
def test_any_text_behind_a_known_name_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        read_exposition(f"{VLLM}vllm:time_to_first_token_seconds_bucket{text}\n")
