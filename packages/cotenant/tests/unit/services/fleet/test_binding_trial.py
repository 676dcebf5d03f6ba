"""The options of a binding trial, and on which host its two containers are found."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.model.errors import CotenantError, InvalidInput
from cotenant.model.fleet.figures import ContainerFigures, HostFigures, Measured, TopPage
from cotenant.services.fleet import binding_trial
from cotenant.services.fleet.binding_trial import MIN_SAMPLES, TrialOptions, run_trial
from cotenant.services.fleet.places import BusOptions


def trial(phase_s: float = 60.0, period_s: float = 20.0) -> TrialOptions:
    return TrialOptions("web", "job", 1, phase_s, period_s)


def test_a_phase_is_a_period_or_more_and_the_phases_follow_one_another_so_often() -> None:
    assert [trial(phase_s).rounds for phase_s in (20.0, 39.9, 40.0, 60.0)] == [1, 1, 2, 3]
    trial(float(MIN_SAMPLES), 2.0)
    for phase_s, period_s, option in (
        (60.0, 1.9, "--period"),
        (19.9, 20.0, "--seconds"),
        (MIN_SAMPLES - 0.1, 2.0, "--seconds"),
    ):
        with pytest.raises(InvalidInput, match=option):
            trial(phase_s, period_s)


class Fleet:
    """Answers pages of figures, and records the limits that are asked for."""

    def __init__(self, *pages: TopPage, fails_to_give_back: bool = False) -> None:
        self.pages = pages
        self.asked: list[int] = []
        self.limits: list[tuple[str, dict[str, str]]] = []
        self.fails_to_give_back = fails_to_give_back

    async def ask(self, bus: object, operator: str, verb: str, request: Any, form: type, within_s: float) -> object:
        assert (bus, operator) == ("bus", "ada")
        if verb == "limit":
            self.limits.append((request.guid, dict(request.limits)))
            if self.fails_to_give_back and set(request.limits.values()) == {""}:
                raise CotenantError("away")
            return None
        assert verb == "top"
        self.asked.append(request.start)
        return self.pages[len(self.asked) - 1]


def page(*hosts: tuple[str, tuple[str, ...]], next_start: int | None = None) -> TopPage:
    return TopPage(
        tuple(
            Measured(name, f"{name}.example", 0.0, HostFigures(), tuple(ContainerFigures(guid) for guid in guids))
            for name, guids in hosts
        ),
        next_start=next_start,
    )


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Connected:
        async def __aenter__(self) -> tuple[str, str]:
            return "bus", "ada"

        async def __aexit__(self, *_: object) -> None:
            pass

    async def sampled(bus: object, operator: str, host: str, of: TrialOptions, length_s: float) -> Any:
        raise InvalidInput("host", f"{host} {length_s:g}", "as found")  # the limits are held by now

    def of(*pages: TopPage, **more: bool) -> Fleet:
        made = Fleet(*pages, **more)
        monkeypatch.setattr(binding_trial, "ask", made.ask)
        return made

    monkeypatch.setattr(binding_trial, "connected", lambda options: Connected())
    monkeypatch.setattr(binding_trial, "_sampled", sampled)
    monkeypatch.setattr(binding_trial, "_SETTLE_S", 0.0)
    return of


def failed(said: list[str] | None = None) -> str:
    with pytest.raises(InvalidInput) as refused:
        run_trial(BusOptions(), trial(), (said if said is not None else []).append)
    return str(refused.value)


GIVEN_BACK = {"cpus": "", "cpu": "", "idle": ""}


@pytest.mark.parametrize("fails", [False, True])
def test_both_are_bound_to_the_cpu_and_all_limits_are_given_back(fleet: Any, fails: bool) -> None:
    world = fleet(page(("h0", ("db",)), next_start=7), page(("h1", ("web", "db", "job"))), fails_to_give_back=fails)
    said: list[str] = []
    assert "h1 20" in failed(said)
    assert said == ["round 1 of 3, alone: 20 s"]
    assert world.asked == [0, 7]
    assert world.limits == [
        ("web", {"cpus": "1"}),
        ("job", {"cpus": "1"}),
        ("job", {"cpu": "10m", "idle": ""}),
        ("web", {"cpus": ""}),
        ("job", GIVEN_BACK),
    ]


def test_containers_on_two_hosts_or_on_none_are_refused_before_anything_is_limited(fleet: Any) -> None:
    world = fleet(page(("h0", ("web",)), ("h1", ("job",))))
    assert "a container on h0.example, where web is" in failed()
    assert world.limits == []
    world = fleet(page(("h0", ("db",)), next_start=1), page(("h1", ())))
    assert "a container that is measured" in failed()
    assert (world.asked, world.limits) == ([0, 1], [])
