"""The founding notes' Test 1 through the bus: a service and a hog on one CPU, alone, together and regulated.

Every setting is a lease of the hosts' keeper: where this command is killed, all is given back when the time is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from cotenant.drivers.nats.contract import Bus
from cotenant.engine.fleet.binding_trial import MIN_SAMPLES, TrialCpuSample, TrialResult, judge
from cotenant.model.errors import CotenantError, InvalidInput, Permanent
from cotenant.model.fleet.figures import Top, TopPage
from cotenant.model.fleet.requests import Limit, Limited
from cotenant.services.fleet.operator import ask, connected
from cotenant.services.fleet.places import BusOptions

PHASES = ("alone", "together", "regulated")
_HOG = ({"cpu": "10m", "idle": ""}, {"cpu": "", "idle": ""}, {"cpu": "", "idle": "1"})  # in each phase
_SETTLE_S = 2.0
_SAMPLE_S = 0.5
_SPARE_S = 60.0

_Samples = tuple[list[TrialCpuSample], list[TrialCpuSample], list[TrialCpuSample]]  # of each phase


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """Guids of two containers of one host; seconds of each phase in all; the period of the service's demand."""

    service: str
    hog: str
    cpu: int
    phase_s: float
    period_s: float

    def __post_init__(self) -> None:
        if self.period_s < 2:
            raise InvalidInput("--period", self.period_s, "2 seconds or more")
        if self.phase_s < self.period_s or self.phase_s < MIN_SAMPLES:
            raise InvalidInput("--seconds", self.phase_s, f"a period or more, and at least {MIN_SAMPLES}")

    @property
    def rounds(self) -> int:
        """How often the phases follow one another, each time for a period or more: what else runs on that CPU comes
        and goes, and hits all of them alike.
        """
        return int(self.phase_s // self.period_s)


def run_trial(bus: BusOptions, options: TrialOptions, said: Callable[[str], None]) -> TrialResult:
    """Run it; `said` hears what goes on. Raises what the fleet answers."""
    return asyncio.run(_run(bus, options, said))


async def _run(options: BusOptions, trial: TrialOptions, said: Callable[[str], None]) -> TrialResult:
    lasts_s = len(PHASES) * (trial.phase_s + trial.rounds * _SETTLE_S) + _SPARE_S
    async with connected(options) as (bus, operator):
        limits = _Limits(bus, operator, lasts_s)
        host = await _host_of(bus, operator, trial)
        try:
            for guid in (trial.service, trial.hog):
                await limits.limit(guid, {"cpus": str(trial.cpu)})
            service: _Samples = ([], [], [])
            hog: _Samples = ([], [], [])
            for number in range(1, trial.rounds + 1):
                for at, (phase, of_hog) in enumerate(zip(PHASES, _HOG, strict=True)):
                    await limits.limit(trial.hog, of_hog)
                    length_s = trial.phase_s / trial.rounds
                    said(f"round {number} of {trial.rounds}, {phase}: {length_s:g} s")
                    await asyncio.sleep(_SETTLE_S)
                    found = await _sampled(bus, operator, host, trial, length_s)
                    service[at].extend(found[0])
                    hog[at].extend(found[1])
        finally:
            for guid in (trial.service, trial.hog):
                await limits.give_back(guid)
    if min(map(len, service)) < MIN_SAMPLES:
        raise Permanent(f"{trial.service} was measured {min(map(len, service))} times only; does it run?")
    return judge(PHASES, service, hog, trial.period_s)


class _Limits:
    """What this trial holds."""

    def __init__(self, bus: Bus, operator: str, lasts_s: float) -> None:
        self._bus = bus
        self._operator = operator
        self._lasts_s = lasts_s
        self._names: dict[str, set[str]] = {}

    async def limit(self, guid: str, limits: dict[str, str]) -> None:
        self._names.setdefault(guid, set()).update(limits)
        await ask(self._bus, self._operator, "limit", Limit(guid, limits, self._lasts_s), Limited, 20.0)

    async def give_back(self, guid: str) -> None:
        """As far as that is possible: the rest ends by its time."""
        names = self._names.get(guid)
        if names:
            try:
                await ask(self._bus, self._operator, "limit", Limit(guid, dict.fromkeys(names, "")), Limited, 20.0)
            except CotenantError:
                return


async def _host_of(bus: Bus, operator: str, trial: TrialOptions) -> str:
    """The agent's guid of the host that has both. Raises `InvalidInput`."""
    start: int | None = 0
    while start is not None:
        page = await ask(bus, operator, "top", Top(start=start), TopPage, 10.0)
        for host in page.hosts:
            guids = {container.guid for container in host.containers}
            if {trial.service, trial.hog} <= guids:
                return host.guid
            if guids & {trial.service, trial.hog}:
                raise InvalidInput("guid", trial.hog, f"a container on {host.hostname}, where {trial.service} is")
        start = page.next_start
    raise InvalidInput("guid", trial.service, "a container that is measured: cotenant fleet top lists them")


async def _sampled(
    bus: Bus, operator: str, host: str, trial: TrialOptions, length_s: float
) -> tuple[list[TrialCpuSample], list[TrialCpuSample]]:
    service: dict[float, TrialCpuSample] = {}
    hog: dict[float, TrialCpuSample] = {}
    until_s = time.monotonic() + length_s
    while time.monotonic() < until_s:
        page = await ask(bus, operator, "top", Top(host=host), TopPage, 10.0)
        for measured in page.hosts:
            middle_s = measured.at_s - 0.5  # figures are of the second before
            for container in measured.containers:
                if container.cpu_milli is not None and container.guid == trial.service:
                    service[measured.at_s] = TrialCpuSample(middle_s, container.cpu_milli)
                elif container.cpu_milli is not None and container.guid == trial.hog:
                    hog[measured.at_s] = TrialCpuSample(middle_s, container.cpu_milli)
        await asyncio.sleep(_SAMPLE_S)
    return [*service.values()], [*hog.values()]
