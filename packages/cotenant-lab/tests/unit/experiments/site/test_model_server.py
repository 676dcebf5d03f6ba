"""The limit that the llm experiment sets: an edge, or nothing."""

from __future__ import annotations

import pytest

from cotenant.model.errors import Permanent
from cotenant.model.traces.model_server import ModelMeasure, ServerHistogram
from cotenant_lab.experiments import registry
from cotenant_lab.experiments.loads.ride_load import Dispatch
from cotenant_lab.experiments.site.model_server import MODEL_SERVER, limit_us
from cotenant_lab.experiments.site.ride import RIDE

EDGES_US = (10_000, 20_000, 40_000, 60_000, 100_000)


def alone(*at_most: int, total: int) -> ServerHistogram:
    return ServerHistogram(ModelMeasure.TIME_TO_FIRST_TOKEN, "stand-in", "", EDGES_US, at_most, total)


@pytest.mark.parametrize(
    ("at_most", "limit"),
    [
        ((100, 100, 100, 100, 100), 20_000),  # 99 % within 10 ms: 15 ms is no edge, the next is
        ((10, 99, 100, 100, 100), 40_000),
        ((10, 98, 99, 100, 100), 60_000),  # 1.5 times 40 ms is an edge itself
    ],
)
def test_the_limit_is_the_first_edge_beyond_the_margin(at_most: tuple[int, ...], limit: int) -> None:
    assert limit_us(alone(*at_most, total=100)) == limit


@pytest.mark.parametrize(
    "found", [alone(0, 0, 0, 0, 0, total=0), alone(0, 0, 0, 0, 9, total=100), alone(0, 0, 0, 0, 99, total=100)]
)
def test_without_an_edge_there_is_no_limit(found: ServerHistogram) -> None:
    with pytest.raises(Permanent):
        limit_us(found)


def test_requests_have_the_path_of_their_application() -> None:
    assert Dispatch(RIDE.path).request(3).startswith(b"GET /dispatch?customer=11 HTTP/1.1\r\n")
    assert Dispatch(MODEL_SERVER.path).request(3).startswith(b"GET /v1/completions?prompt_tokens=111&max_tokens=8 ")


def test_the_experiment_has_its_application() -> None:
    experiment = registry.make("llm")
    assert (experiment.name, experiment.arms) == ("llm", registry.make("loop").arms)
