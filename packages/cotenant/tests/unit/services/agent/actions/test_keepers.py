"""The keeper that an agent opens, and what it restores first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.kept_knobs import KeptKnobs

from cotenant.drivers.leasefile.audit import AuditTrail
from cotenant.drivers.leasefile.file import LeaseFile
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.machine.knob import ALL_SERVERS, Knob, KnobScope, KnobTarget, LeaseState, SetKnob
from cotenant.model.machine.node_decision import Reason
from cotenant.services.agent.actions import keepers
from cotenant.services.agent_settings.config import LONGEST_TTL_MS, AgentConfig
from cotenant.services.knobs.executor import LeaseExecutor
from cotenant.services.knobs.host import CLOCK, HostKnobs, OwnerPaths, boot_id
from cotenant.services.knobs.rules import KnobRules

WISH = SetKnob(KnobTarget("be/a", Knob.CPU_MAX), "50000 100000", Reason("test", "because"))


@pytest.fixture
def knobs(monkeypatch: pytest.MonkeyPatch) -> KeptKnobs:
    knobs = KeptKnobs(["be/a"])

    @contextmanager
    def machine_knobs(cgroups: Path, resctrl: Path, owners: OwnerPaths) -> Iterator[HostKnobs]:
        assert (cgroups, resctrl, owners.cpu_manager) == (Path("/cgroups"), Path("/resctrl"), Path("/k0s/state"))
        yield HostKnobs({KnobScope.CGROUP: knobs})

    monkeypatch.setattr(keepers, "machine_knobs", machine_knobs)
    return knobs


def config(mode: AgentMode, state_dir: Path) -> AgentConfig:
    """On a machine whose files are in unusual places."""
    made = AgentConfig(mode=mode, writable=("be",), state_dir=state_dir, lease_ttl_ms=30_000)
    places = {"cgroup_root": Path("/cgroups"), "resctrl_root": Path("/resctrl")}
    return replace(made, cpu_manager_state=Path("/k0s/state"), **places)


@pytest.mark.parametrize("mode", AgentMode)
def test_one_process_first_restores_leftovers_in_every_mode(mode: AgentMode, knobs: KeptKnobs, tmp_path: Path) -> None:
    file = LeaseFile(tmp_path, boot_id())
    LeaseExecutor({KnobScope.CGROUP: knobs}, file, AuditTrail(tmp_path), CLOCK, KnobRules(("be",))).hold([WISH])
    file.close()
    assert knobs.snapshot() == {WISH.target: WISH.value}

    async def start() -> LeaseState:
        async with keepers.open_keeper(config(mode, tmp_path), single=True) as kept:
            assert knobs.snapshot() == {}
            (answer,) = await kept.hold([WISH])
            return answer.state

    assert asyncio.run(start()) is LeaseState.HELD
    assert knobs.snapshot() == {}
    file = LeaseFile(tmp_path, boot_id())
    assert file.found.leases == ()
    file.close()


def test_in_one_process_leases_may_be_lengthened_by_a_reload(knobs: KeptKnobs, tmp_path: Path) -> None:
    async def start() -> LeaseState:
        async with keepers.open_keeper(config(AgentMode.ACT, tmp_path), single=True) as kept:
            (answer,) = await kept.hold([replace(WISH, ttl_us=LONGEST_TTL_MS * 1000)])
            return answer.state

    assert asyncio.run(start()) is LeaseState.HELD


def test_in_one_process_the_cards_that_the_settings_name_are_granted(knobs: KeptKnobs, tmp_path: Path) -> None:
    power = replace(WISH, target=KnobTarget("GPU-a", Knob.GPU_POWER), value="300000")
    threads = replace(WISH, target=KnobTarget(ALL_SERVERS, Knob.MPS_THREADS), value="30")

    async def start(recovery: RecoverySettings | None) -> list[str]:
        made = config(AgentMode.ACT, tmp_path)
        made = replace(made, policies=replace(made.policies, recovery=recovery))
        async with keepers.open_keeper(made, single=True) as kept:
            return [answer.detail for answer in await kept.hold([power, threads])]

    for without in (None, RecoverySettings()):
        card, clients = asyncio.run(start(without))
        assert "is not an allowed GPU" in card
        assert "no limit of MPS clients" in clients
    granted = asyncio.run(start(RecoverySettings(cards=("GPU-a",), threads_percent=30)))
    assert all("allowed" not in detail and "no limit" not in detail for detail in granted)  # there is no driver here


def test_a_dry_run_writes_nothing_and_creates_no_folder(knobs: KeptKnobs, tmp_path: Path) -> None:
    async def start() -> LeaseState:
        async with keepers.open_keeper(config(AgentMode.DRY_RUN, tmp_path / "state"), single=True) as kept:
            (answer,) = await kept.hold([WISH])
            return answer.state

    assert asyncio.run(start()) is LeaseState.HELD
    assert knobs.journal == []
    assert not (tmp_path / "state").exists()
