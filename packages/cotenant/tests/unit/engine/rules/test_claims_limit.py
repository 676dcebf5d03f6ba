"""One inventory of any size is judged within the limit of each decision, and as if it had been judged at once."""

from __future__ import annotations

import pytest
from tests.fakes.cluster.claims_world import DRIVER, ClaimsWorld, request, spec

from cotenant.engine.framework.instructions import Unschedulable
from cotenant.engine.rules.claims.verdicts import WORK, ClaimVerdicts, Work
from cotenant.model.claims.devices import OfferedDevice, Reach, ResourceSlice

SLICES, DEVICES, STEPS = 6, 100, 30


class Costly:
    """Selectors that are names of models; each evaluation costs `STEPS`."""

    def __init__(self) -> None:
        self.spent = 0

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        self.spent += STEPS
        return dict(device.attributes)["model"] == expression


def world(slices: int = SLICES) -> tuple[ClaimsWorld, Costly]:
    """One node with 100 devices a slice, of which the last matches."""
    made, selectors = ClaimsWorld(), Costly()
    made.facts.selectors = selectors
    made.node("n0")
    for number in range(slices):
        devices = tuple(OfferedDevice(f"d{at}-{number}", (("model", f"m{number}-{at}"),)) for at in range(DEVICES))
        made.facts.slice_seen(ResourceSlice(f"s{number:02}", DRIVER, "n0", 1, slices, Reach("n0"), devices))
    return made, selectors


def test_an_inventory_is_judged_in_portions_of_the_limit() -> None:
    made, selectors = world()
    verdicts = ClaimVerdicts((spec(request("gpu", 1, "m5-99")),))
    portions = []
    while not verdicts.is_complete:
        before = selectors.spent
        verdicts.refresh(made.rules.judging, Work())
        portions.append(selectors.spent - before)
    assert sum(portions) == SLICES * DEVICES * STEPS  # nothing is evaluated again
    assert max(portions) * 8 <= WORK + STEPS * 8
    row = made.facts.inventories.row_of("n0")
    choice = verdicts.choice(made.rules.judging, int(made.facts.inventories.by_row()[row]))
    assert isinstance(choice, tuple)
    assert [pick.place for picks in choice for pick in picks] == [(0, SLICES * DEVICES - 1)]


def test_an_inventory_that_changes_in_between_is_begun_again() -> None:
    made, _ = world()
    verdicts = ClaimVerdicts((spec(request("gpu", 1, "new")),))
    verdicts.refresh(made.rules.judging, Work())
    assert not verdicts.is_complete
    devices = (OfferedDevice("first", (("model", "new"),)),)
    made.facts.slice_seen(ResourceSlice("s00", DRIVER, "n0", 1, SLICES, Reach("n0"), devices))
    for _ in range(100):
        verdicts.refresh(made.rules.judging, Work())
    row = made.facts.inventories.row_of("n0")
    choice = verdicts.choice(made.rules.judging, int(made.facts.inventories.by_row()[row]))
    assert isinstance(choice, tuple)
    assert [pick.place for picks in choice for pick in picks] == [(0, 0)]


class Known:
    """Selectors whose results are all known: they cost no steps. `asked`: how often they were."""

    spent = 0

    def __init__(self) -> None:
        self.asked = 0

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        self.asked += 1
        return True


def test_what_is_known_already_counts_for_each_device_and_request_too() -> None:
    made, _ = world(2)
    selectors = made.facts.selectors = Known()
    verdicts = ClaimVerdicts((spec(*(request(f"r{at}", 1, *(f"s{at}-{of}" for of in range(10))) for at in range(16))),))
    portions = []
    while not verdicts.is_complete:
        before = selectors.asked
        verdicts.refresh(made.rules.judging, Work())
        portions.append(selectors.asked - before)
    assert len(portions) > 1
    assert max(portions) <= WORK + 16 * 10  # the last device of a portion may go beyond
    assert sum(portions) == 2 * DEVICES * 16 * 10


class CostlyOnce(Known):
    """Selectors that match everything; the first evaluation of each for a device costs as much as one may."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0
        self._seen: set[tuple[str, str]] = set()

    def matches(self, expression: str, driver: str, device: OfferedDevice) -> bool:
        self.asked += 1
        if (expression, device.name) not in self._seen:
            self._seen.add((expression, device.name))
            self.spent += 10_000
        return True


def test_the_selectors_of_one_device_are_judged_in_portions_of_the_limit_too() -> None:
    """32 requests of 32 selectors are a thousand evaluations for each device."""
    made, selectors = ClaimsWorld(), CostlyOnce()
    made.facts.selectors = selectors
    made.node("n0")
    made.facts.slice_seen(ResourceSlice("s", DRIVER, "n0", 1, 1, Reach("n0"), (OfferedDevice("a", ()),)))
    asks = (request(f"r{at}", 1, *(f"s{at}-{of}" for of in range(32))) for at in range(32))
    verdicts = ClaimVerdicts((spec(*asks),))
    portions = []
    while not verdicts.is_complete:
        before = selectors.spent
        verdicts.refresh(made.rules.judging, Work())
        portions.append(selectors.spent - before)
    assert max(portions) <= WORK // 8 + 10_000
    assert sum(portions) == 32 * 32 * 10_000


def test_a_pod_is_placed_when_its_node_was_judged() -> None:
    made, _ = world()
    made.own("a", spec(request("gpu", 1, "m5-99")))
    assert made.settle()["a"] == "n0"


def test_a_pod_is_told_once_that_its_node_is_still_judged() -> None:
    made, _ = world(20)
    made.own("a", spec(request("gpu", 1, "m19-99")))
    said: list[tuple[float, str]] = []
    for tenth in range(200):
        made.now_s = tenth / 10
        bound = made.decide()
        said += [(made.now_s, one.message) for one in made.told if isinstance(one, Unschedulable)]
        made.told.clear()
        if bound:
            break
    assert [one.node for one in bound] == ["n0"]
    assert [message for _, message in said] == ["nodes are being judged for the claims of the pod"]
    assert said[0][0] <= 1.2
    assert made.now_s > said[0][0]


@pytest.mark.slow
def test_a_hundred_thousand_devices_of_one_node() -> None:
    made, selectors = world(1_000)
    verdicts = ClaimVerdicts((spec(request("gpu", 1, "m999-99")),))
    portions = []
    while not verdicts.is_complete:
        before = selectors.spent
        verdicts.refresh(made.rules.judging, Work())
        portions.append(selectors.spent - before)
    assert sum(portions) == 1_000 * DEVICES * STEPS
    assert max(portions) * 8 <= WORK + STEPS * 8
    row = made.facts.inventories.row_of("n0")
    choice = verdicts.choice(made.rules.judging, int(made.facts.inventories.by_row()[row]))
    assert isinstance(choice, tuple)
    assert len(choice[0]) == 1
