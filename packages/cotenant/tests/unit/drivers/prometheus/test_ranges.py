from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.servers.fake_prometheus import FakePrometheus, Question, Reply, matrix, refusal

from cotenant.drivers.prometheus.answers import read_answer
from cotenant.drivers.prometheus.client import Prometheus, PrometheusClient
from cotenant.drivers.prometheus.part_files import PartFiles
from cotenant.drivers.prometheus.ranges import (
    MAX_VALUES,
    PartStore,
    RangePart,
    RangeRead,
    RangeSteps,
    placed,
    read_span,
)
from cotenant.model.errors import InvalidInput

SPAN = RangeSteps(60_000.0, 60.0, 1000)


def name_of(labels: dict[str, str]) -> str:
    return labels.get("pod", "")


def value_at(t: float) -> float:
    return round(t / 60.0) % 1000 + 1.0


def all_there(question: Question) -> Reply:
    return matrix(({"pod": "a"}, [(t, value_at(t)) for t in question.columns]), ({"pod": "b"}, [(question.at_s, 7)]))


def read(
    answer: Callable[[Question], Reply], store: PartStore | None = None, in_flight: int = 2, **more: object
) -> tuple[RangeRead, FakePrometheus]:
    async def no_sleep(pause_s: float) -> None:
        return None

    async def ask() -> tuple[RangeRead, FakePrometheus]:
        async with FakePrometheus(answer) as server:
            prometheus = Prometheus(server.url, qps=1e6, in_flight=in_flight, max_tries=1)
            async with PrometheusClient(prometheus, monotonic=lambda: 0.0, sleep=no_sleep) as client:
                found = await read_span(
                    client, "CPU", "cpu", SPAN, name_of, expected_series=2, server_now_s=1e9, store=store, **more
                )  # type: ignore[arg-type]
                return found, server

    return asyncio.run(ask())


def test_parts_cover_the_span_once_at_multiples_of_their_length() -> None:
    for series in (1, 1000, MAX_VALUES // 100, 10 * MAX_VALUES):
        parts = list(SPAN.parts(series))
        assert [column for first, count in parts for column in range(first, first + count)] == list(range(1000))
        width = max(count for _, count in parts)
        assert width & (width - 1) == 0 or width == 1000
        assert all((1000 + first) % width == 0 for first, _ in parts[1:])


def test_a_span_is_put_together_of_parts() -> None:
    reports: list[tuple[int, int]] = []
    found, server = read(all_there, scale=10.0, report=lambda done, of: reports.append((done, of)))
    names, values = found.named()
    assert names == ("a", "b")
    np.testing.assert_array_equal(values[0], [10 * value_at(60_000 + 60 * i) for i in range(1000)])
    assert np.count_nonzero(~np.isnan(values[1])) == len(server.asked) == 5
    assert reports == [(done, 5) for done in range(6)]
    assert (found.faults, found.failed_steps) == ([], 0)


@pytest.mark.parametrize("error", ["query processing would load too many samples", "query timed out"])
def test_what_is_too_much_is_asked_for_in_halves(error: str) -> None:
    def answer(question: Question) -> Reply:
        return refusal(422, error) if len(question.columns) > 64 else all_there(question)

    found, server = read(answer)
    assert found.faults == []
    assert not np.isnan(found.named()[1][0]).any()
    assert max(len(question.columns) for question in server.asked) == 256


def test_a_part_that_cannot_be_read_is_named_and_the_rest_goes_on() -> None:
    def answer(question: Question) -> Reply:
        broken = question.at_s <= 60_000 + 300 * 60 <= question.end_s
        return refusal(400, "a chunk is corrupt") if broken else all_there(question)

    found, _ = read(answer)
    missing = np.isnan(found.named()[1][0])
    assert found.faults == ["CPU: status 400: a chunk is corrupt"]
    assert missing[300]
    assert missing.sum() == found.failed_steps < 300


def test_a_dead_server_is_left_alone() -> None:
    found, server = read(lambda question: refusal(500, "panic"), in_flight=1)
    assert len(server.asked) == 3
    assert found.refused_whole
    assert found.failed_steps == 1000
    assert found.named()[0] == ()
    assert found.faults == ["CPU: status 500: panic", "CPU: left alone after failures"]


def test_a_server_that_is_only_slow_is_not_halved_to_the_end() -> None:
    found, server = read(lambda question: refusal(504, "timed out"), in_flight=1)
    assert len(server.asked) == 9  # each of three parts: whole, half, quarter
    assert found.refused_whole


def test_an_answer_without_all_stores_counts_and_is_named() -> None:
    found, _ = read(lambda question: Reply(all_there(question).body[:-1] + b', "warnings": ["store 2 is away"]}'))
    assert found.faults == ["CPU: store 2 is away"]
    assert not np.isnan(found.named()[1][0]).any()


def test_samples_beside_the_columns_below_nothing_or_doubled() -> None:
    answer = read_answer(
        matrix(
            ({"pod": "a"}, [(100, 1), (110, 2), (130, 3), (160, -1), (220, "NaN"), (1e9, 9), (-1e9, 9)]),
            ({"pod": "a"}, [(100, 4)]),
            ({"other": "x"}, [(100, 5)]),
        ).body
    )
    part = placed(answer, name_of, 100.0, 30.0, 5)
    assert part.names == ("a",)
    np.testing.assert_array_equal(part.values, [[4, 3, np.nan, np.nan, np.nan]])


def test_kept_parts_are_not_asked_for_again(tmp_path: Path) -> None:
    store = PartFiles(tmp_path / "parts", "http://a", {"X-Scope-OrgID": "1"})
    whole, first = read(all_there, store)
    again, second = read(all_there, store)
    assert (len(first.asked), len(second.asked)) == (5, 0)
    np.testing.assert_array_equal(whole.named()[1], again.named()[1])
    other = PartFiles(tmp_path / "parts", "http://a", {"X-Scope-OrgID": "2"})
    assert len(read(all_there, other)[1].asked) == 5  # another tenant's


def test_what_may_still_change_or_is_partial_is_not_kept(tmp_path: Path) -> None:
    store = PartFiles(tmp_path / "parts", "http://a", {})
    read(lambda question: Reply(all_there(question).body[:-1] + b', "isPartial": true}'), store)
    assert list((tmp_path / "parts").iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 no zip", b"\x93NUMPY"])
def test_a_damaged_file_is_as_if_it_were_not_there(damage: bytes, tmp_path: Path) -> None:
    store = PartFiles(tmp_path, "http://a", {})
    key = ("cpu", 0.0, 60.0, 3)
    store.put(key, RangePart(("a",), np.ones((1, 3), np.float32)))
    kept = store.get(key)
    assert kept is not None
    assert kept.names == ("a",)
    file = next(tmp_path.glob("*.npz"))
    file.write_bytes(damage)
    assert store.get(key) is None
    assert store.get(("cpu", 0.0, 60.0, 4)) is None


def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="--resume"):
        PartFiles(tmp_path / "file", "http://a", {})
