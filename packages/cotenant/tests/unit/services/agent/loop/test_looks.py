"""A look reads the groups that together have all best-effort work, and a change takes a sample."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from tests.fakes.node.node_pods import node, pod, using

from cotenant.engine.node.bursts import BurstSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.node_state import NodeState
from cotenant.services.agent.loop.looks import MAX_GROUPS, Looks, best_effort_groups

WEB = using(pod("web", QoSClass.LS), cpu_m=500)


def test_all_best_effort_work_is_looked_at_once() -> None:
    inside, outside = pod("inside", group="be/inside"), pod("outside")
    state = node([WEB, using(inside, cpu_m=10), using(outside, cpu_m=10)], best_effort_group="be")

    assert best_effort_groups(state) == ("be", "pods/outside")
    assert best_effort_groups(node([WEB])) == ()
    assert best_effort_groups(node([using(inside, cpu_m=10)])) == ("be/inside",)


def test_of_very_many_groups_the_common_one_is_looked_at() -> None:
    pods = [using(pod(f"job-{number}"), cpu_m=10) for number in range(2 * MAX_GROUPS)]
    groups = best_effort_groups(node(pods, best_effort_group="be"))

    assert groups[0] == "be"
    assert len(groups) == MAX_GROUPS


class Looked:
    """Looks at one pod, whose use a case sets."""

    def __init__(self, state: NodeState | None, limits: bool = False, sample_ms: int = 0) -> None:
        self.at_us, self.cpu_us, self.samples, self.taken_ns = 0, 0, 0, 0
        self.limits, self.sample_ms = limits, sample_ms
        self.read_groups: list[Sequence[str]] = []
        self.looks = Looks(
            BurstSettings(),
            2,
            state=lambda: state,
            read=self.read,
            sample=self.sample,
            now_us=lambda: self.at_us,
            cpu_ns=lambda: self.taken_ns,
        )

    def read(self, groups: Sequence[str]) -> Mapping[str, int]:
        self.read_groups.append(groups)
        return dict.fromkeys(groups, self.cpu_us)

    async def sample(self) -> bool:
        self.samples += 1
        self.taken_ns += self.sample_ms * 1_000_000
        return self.limits

    def run(self, *uses_m: int) -> None:
        async def looking() -> None:
            for use_m in uses_m:
                self.at_us += 200_000
                self.cpu_us += use_m * 200
                await self.looks.check_bursts()

        asyncio.run(looking())


def test_a_change_takes_samples_until_a_limit_stands() -> None:
    state = node([using(pod("job"), cpu_m=0)])
    without, limited = Looked(state), Looked(state, limits=True)
    begins = [*[0] * 6, *[1000] * 3]
    without.run(*begins)
    limited.run(*begins)

    assert without.samples == without.looks.asked == 3
    assert limited.samples == 1


def test_samples_that_take_long_are_taken_more_rarely() -> None:
    state = node([using(pod("job"), cpu_m=0)])
    quick, slow = Looked(state, sample_ms=5), Looked(state, sample_ms=50)
    for looked in (quick, slow):
        looked.run(*[0, 2000] * 150)

    assert quick.samples > 30
    assert slow.samples < 12


def test_before_the_first_sample_nothing_is_read() -> None:
    looked = Looked(None)
    looked.run(0, 1000)

    assert looked.read_groups == []
    assert looked.samples == 0
