"""What others learned of use is written for a time, anew before it ends, and taken away."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.fakes.shared_use import use_evidence

from cotenant.drivers.kube.client.errors import NotFound
from cotenant.drivers.kube.kinds.config_map import ConfigMap
from cotenant.drivers.kube.kinds.shared_predictions import OTHERS, PredictionsMap, read_others
from cotenant.services.fleet.federation.prediction_objects import JoinedPredictions


class Api:
    """One ConfigMap, which is not there at first."""

    def __init__(self) -> None:
        self.data: dict[str, str] | None = None
        self.writes = 0

    async def get(self, *place: Any) -> ConfigMap:
        if self.data is None:
            raise NotFound("none")
        return ConfigMap(data=dict(self.data))

    async def patch(self, kind: Any, namespace: str, name: str, body: Any) -> None:
        if self.data is None:
            raise NotFound("none")
        self.writes += 1
        for key, text in body["data"].items():
            if text is None:
                self.data.pop(key, None)
            else:
                self.data[key] = text

    async def create(self, kind: Any, namespace: str, body: Any) -> None:
        assert body["metadata"] == {"name": "predictions"}
        self.data = dict(body["data"])
        self.writes += 1


def test_it_is_written_where_it_is_another_or_half_of_its_time_is_gone() -> None:
    api: Any = Api()
    joined = JoinedPredictions(PredictionsMap(api, "cotenant", "predictions"))
    first, second = {"web.cpu": use_evidence()}, {"web.cpu": use_evidence(hours=2000)}

    def write(in_force: Any, now_s: float) -> bool:
        return asyncio.run(joined.write(in_force, now_s, 200.0))

    assert not write({}, 0.0)
    assert api.data is None  # nothing is made for nothing
    assert write(first, 10.0)
    assert read_others(api.data).until_s == 210.0
    assert not write(first, 60.0)
    assert write(first, 120.0)
    assert read_others(api.data).until_s == 320.0
    assert write(second, 121.0)
    assert read_others(api.data).predictions == (use_evidence(hours=2000),)
    assert not write({}, 122.0)
    assert OTHERS not in api.data
    assert api.writes == 4
    assert not write({}, 123.0)
    assert api.writes == 4


def test_what_a_joiner_before_left_is_taken_away_too() -> None:
    api: Any = Api()
    api.data = {OTHERS: "{}", "learned": "[]"}
    joined = JoinedPredictions(PredictionsMap(api, "cotenant", "predictions"))
    asyncio.run(joined.write({}, 0.0, 10.0))
    assert api.data == {"learned": "[]"}
    assert asyncio.run(joined.learned()) == ()
