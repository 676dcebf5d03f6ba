from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.fakes.node.knob_contract import KnobContract

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant_lab.plant.knobs import PlantKnobs


class TestPlantKnobs(KnobContract):
    @pytest.fixture
    def group(self) -> str:
        return "a/b"

    @pytest.fixture
    def knobs(self, group: str) -> PlantKnobs:
        return PlantKnobs(4, [group])

    @pytest.fixture
    def vanish(self, knobs: PlantKnobs) -> Callable[[], None]:
        return lambda: knobs.remove("a")

    @pytest.fixture
    def device(self) -> str:
        return "8:0"


def test_a_cpu_that_the_machine_has_not_is_refused() -> None:
    knobs = PlantKnobs(2, ["a"])
    with pytest.raises(InvalidInput, match="below 2"):
        knobs.write(KnobTarget("a", Knob.CPUSET_CPUS), "0-2")
