"""The process over an in-memory machine: knobs held and given back, queries, triggers and reports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.fakes.node.agent_world import CONFIG, GIB, AwaySource, World, asked, live, world
from tests.fakes.waiting import soon

from cotenant.drivers.resctrl.monitoring import CacheUse
from cotenant.engine.node.mode import AgentMode
from cotenant.engine.node.policies import DEFAULT_POLICIES, PolicySettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import CotenantError, Transient
from cotenant.model.machine.cache_partition import CacheHardware
from cotenant.model.machine.counters import Gap, GpuCounters
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_pod import NodePod
from cotenant.model.machine.node_state import Allocatable
from cotenant.policy.nodeqos.cpu.best_effort import BestEffortCpuConfig
from cotenant.policy.nodeqos.cpu.suppression import SuppressConfig, SuppressionForm
from cotenant.policy.nodeqos.memory.cache import CacheConfig, ClassCache
from cotenant.services.agent.agent_process import AgentProcess
from cotenant.services.agent_settings.config import read_config

IDLE = KnobTarget("top/job", Knob.CPU_IDLE)


def test_best_effort_is_throttled_and_everything_is_given_back_at_the_end() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}
    held = {}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        held.update(w.knobs.snapshot())
        await process.end()

    live(w, scenario)
    assert held[IDLE] == "1"
    assert w.knobs.snapshot() == {}


def test_once_returns_what_would_be_held() -> None:
    """What it wanted, not what is left of that after the end."""
    w = world(mode=AgentMode.OBSERVE)
    w.use = {"top/web": 1500, "top/job": 2400}
    process = w.process()
    process.config = replace(process.config, period_ms=100)
    assert IDLE in {hold.target for hold in asyncio.run(process.once())}
    assert w.knobs.journal == []


def test_earlier_values_of_others_are_restored() -> None:
    w = world()
    before = {KnobTarget("top/job", Knob.CPU_MAX): "300000 100000", KnobTarget("top/job", Knob.CPU_WEIGHT): "50"}
    for target, value in before.items():
        w.knobs.set_outside(target, value)
    w.use = {"top/web": 3500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 20)
        assert w.knobs.snapshot() != before
        await process.end()

    live(w, scenario)
    assert w.knobs.snapshot() == before


def test_observe_mode_writes_nothing_and_records_what_it_would() -> None:
    w = world(mode=AgentMode.OBSERVE)
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)

    process = live(w, scenario)
    assert w.knobs.journal == []
    assert w.keeper.trail == []
    assert IDLE in {hold.target for hold in process.agent.held_knobs()}


def test_a_new_agent_gets_the_held_leases_and_gives_back_unwanted_ones() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)  # and then it is killed
        assert w.knobs.snapshot()
        w.config = replace(w.config, groups=(w.config.groups[0],))
        second = w.process()
        await second.discover()
        await w.tick(second, 2)
        assert w.knobs.snapshot() == {}

    live(w, scenario)


def test_sources_get_the_held_leases_before_their_first_query() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}
    source = w.sources["kubelet"] = AwaySource()
    told: list[tuple[int, set[KnobTarget]]] = []
    w.more["leases_seen"] = (lambda leases: told.append((source.asked, {lease.target for lease in leases})),)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        held = set(w.knobs.snapshot())
        await w.process().discover()
        assert told == [(0, set()), (1, held)]

    live(w, scenario)


def test_pods_of_other_sources_are_protected_too() -> None:
    w = world(groups=())
    w.knobs.add("pods/x")
    w.sources["kubelet"] = AwaySource((NodePod("u1", "a", "b", "pods/x", qos=QoSClass.LS),))

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 2)

    process = live(w, scenario)
    state = process.agent.state()
    assert state is not None
    assert [entry.pod.key for entry in state.pods] == ["a/b"]


# ---- life


def test_it_stops_on_request_with_nothing_held() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def run() -> None:
        process = w.process()
        stop = asyncio.Event()
        running = asyncio.create_task(process.run(stop))
        while process.ticker.ticks < 1:
            await asyncio.sleep(0)
        await w.tick(process, 3)
        assert w.knobs.snapshot()
        stop.set()
        await running

    asyncio.run(run())
    assert w.knobs.snapshot() == {}


def test_a_failing_task_ends_the_process_after_giving_back() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    class Broken:
        def watch(self, groups: object) -> None:
            pass

        async def run(self, pressed: object) -> None:
            while not w.knobs.snapshot():
                await asyncio.sleep(0)
            raise ZeroDivisionError("a defect")

    w.triggers["probe"] = Broken()

    async def run() -> None:
        process = w.process()
        running = asyncio.create_task(process.run(asyncio.Event()))
        while process.ticker.ticks < 1:
            await asyncio.sleep(0)
        while not running.done():
            w.pass_time()
            await process.ticker.try_tick()
            await asyncio.sleep(0)
        await running

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert w.knobs.snapshot() == {}


def test_reports_go_to_every_receiver() -> None:
    urls = ("http://a.example/metrics/report", "http://b.example/metrics/report")
    w = world(reports=replace(CONFIG.reports, urls=urls))
    w.use = {"top/web": 1500}

    async def scenario(process: AgentProcess) -> None:
        process.report()  # nothing is known yet
        assert all(outbox.waiting is None for outbox in process.deliveries)
        await w.tick(process, 3)
        process.report()
        for outbox in process.deliveries:
            await outbox.deliver()

    live(w, scenario)
    assert [url for url, _ in w.posted] == list(urls)
    assert b'"node_name":"n1"' in w.posted[0][1]
    assert b'"cpu_used":1.5' in w.posted[0][1]


def test_evictions_are_requested_and_their_answers_recorded() -> None:
    w = world()

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 2)
        w.evictions.answer = (False, "a budget")
        from cotenant.engine.node.instructions import Instructions
        from cotenant.model.machine.node_decision import EvictPod, Reason

        pod = EvictPod("group:top/job", "jobs/one", Reason("r", "too much"))
        await process.actor.exchange(lambda: Instructions(evict=(pod,)))
        await asyncio.sleep(0)
        w.evictions.fails = ZeroDivisionError("a defect")
        await process.actor.exchange(lambda: Instructions(evict=(pod,)))
        await process.actor.exchange(lambda: Instructions(evict=(pod,), dry=True))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await process.actor.close()

    process = live(w, scenario)
    assert len(w.evictions.pods) == 2
    assert process.actor.eviction_failures == 1


def test_health_and_readiness_say_what_is_wrong() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        assert process.unready() == "nothing has been measured yet"
        await w.tick(process, 3)
        assert process.unready() == process.unhealthy() == ""
        w.keeper.away = True
        w.use = {"top/web": 3500, "top/job": 100}
        await w.tick(process, 12)
        assert "keeper cannot be reached: nobody listens" in process.unready()
        assert process.unhealthy() == ""
        w.sensor_fails = Transient("no such luck")
        await w.tick(process, 12)
        assert "no tick has succeeded for 12 s" in process.unhealthy()
        assert "the last 12 ticks failed" in process.unready()

    live(w, scenario)


# ---- triggers


def test_a_trigger_causes_a_sample_once_per_period_and_a_decision_on_it() -> None:
    w = world()
    w.use = {"top/web": 1500}
    w.knobs.set_outside(KnobTarget("top/job", Knob.CPU_WEIGHT), "50")

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        samples = w.samples
        for _ in range(5):
            w.pass_time(0.1)
            await process.early.pressed("top/web", "cpu", 300_000)
        assert w.samples == samples + 1
        assert process.agent.counts().pressed == 0  # no best-effort work runs
        w.use = {"top/web": 1500, "top/job": 2400}
        w.pass_time(1.0)
        await process.early.pressed("top/web", "cpu", 300_000)
        assert w.samples == samples + 2
        assert process.agent.counts().pressed == 1
        assert process.early.pressure_events == {"cpu": 6}

    live(w, scenario)
    assert w.knobs.snapshot()[IDLE] == "1"


def test_a_trigger_that_leads_to_a_knob_is_timed() -> None:
    quota = BestEffortCpuConfig(suppress=SuppressConfig(form=SuppressionForm.QUOTA))
    w = world(policies=replace(DEFAULT_POLICIES, best_effort_cpu=quota))
    w.use = {"top/web": 3000}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        w.use = {"top/web": 1500, "top/job": 2400}
        w.delay_ppm = {"top/web": 2_000_000}
        w.pass_time(0.3)
        await process.early.pressed("top/web", "cpu", 300_000)
        assert "cotenant_agent_reaction_seconds_count 1.0" in process.metrics.page().decode()
        await process.early.pressed("nobody", "cpu", 300_000)
        assert process.ticker.failures == 0

    live(w, scenario)


# ---- groups that come between two discoveries


def test_a_plain_group_that_appears_is_held_at_the_next_tick() -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}
    w.vanish("top/job")

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 7)  # asked for in vain, more than once
        assert w.knobs.snapshot() == {}
        w.appear("top/job")
        await w.tick(process)
        assert w.knobs.snapshot()[IDLE] == "1"

    live(w, scenario)


@pytest.mark.parametrize("absent", [0, 1, 3])
def test_a_recreated_group_is_held_within_two_ticks(absent: int) -> None:
    w = world()
    w.use = {"top/web": 1500, "top/job": 2400}

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 6)
        held = w.knobs.snapshot()
        assert held[IDLE] == "1"
        w.vanish("top/job")
        await w.tick(process, absent)
        w.appear("top/job")
        assert w.knobs.snapshot() == {}
        await w.tick(process, 2)
        assert w.knobs.snapshot() == held

    live(w, scenario)


def test_a_new_pod_group_triggers_an_early_discovery() -> None:
    w = world(groups=(), period_ms=100, discovery_period_s=600.0)
    source = w.sources["kubelet"] = AwaySource()
    w.pod_groups_changed = lambda: source.asked == 1

    async def run() -> None:
        stop = asyncio.Event()
        process = w.process()
        running = asyncio.create_task(process.run(stop))

        def asked_again() -> bool:
            source.answer = (NodePod("u1", "a", "b", "pods/x", qos=QoSClass.BE),) if source.asked else ()
            return source.asked >= 2 and bool(process.pods)

        await soon("the source is asked again", asked_again)
        stop.set()
        await running

    asyncio.run(run())
    assert source.asked == 2


class Asking:
    """A link to the trace process that counts how often it is to ask for other pods."""

    def __init__(self) -> None:
        self.changes = 0

    def pods_changed(self) -> None:
        self.changes += 1


def test_signals_are_asked_for_anew_when_a_pod_whose_group_came_first_gets_its_name() -> None:
    w = world(groups=())
    source = w.sources["kubelet"] = AwaySource()
    link = Asking()
    w.more = {"traces": link}
    named = NodePod("u1", "shop", "cart-0", "pods/x", qos=QoSClass.LS)

    async def scenario() -> list[int]:
        process, changes = w.process(), list[int]()
        for pods in ((replace(named, namespace="", name="u1"),), (named,), (named,)):
            source.answer = pods
            await process.discover()
            changes.append(link.changes)
        return changes

    assert asyncio.run(scenario()) == [1, 2, 2]


# ---- what a machine has


def test_cache_hardware_and_allocatable_reach_the_policies() -> None:
    hardware = CacheHardware(ways=10, cache_domains=(0,))
    w = world(policies=PolicySettings(best_effort_cpu=None, burst=None, cache=CacheConfig()))
    w.more = {"cache": hardware, "allocatable": lambda: Allocatable(cpu_m=4000, batch_cpu_m=1000)}
    seen: list[PolicySettings] = []
    w.more["placers"] = (Placed(seen),)

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 3)
        await process.placing.place()
        assert {hold.target for hold in process.agent.held_knobs()} == {KnobTarget("BE", Knob.SCHEMATA)}
        state = process.agent.state()
        assert state is not None
        assert state.allocatable == Allocatable(cpu_m=4000, batch_cpu_m=1000)
        assert await process.reload(
            asked(
                replace(w.config, policies=PolicySettings(best_effort_cpu=None, burst=None, cache=CacheConfig(ls=LESS)))
            )
        )
        await w.tick(process, 3)
        assert {hold.target.group for hold in process.agent.held_knobs()} == {"BE", "LS"}
        assert process.agent.state().allocatable is not None  # type: ignore[union-attr]

    live(w, scenario)
    assert [settings.cache.hardware for settings in seen if settings.cache] == [hardware]


LESS = ClassCache(end_percent=50)


class Placed:
    def __init__(self, seen: list[PolicySettings], fails: CotenantError | None = None) -> None:
        self.seen, self.fails = seen, fails
        self.what = "bad" if fails else "good"

    def place(self, pods: Sequence[NodePod], policies: PolicySettings) -> None:
        self.seen.append(policies)
        if self.fails is not None:
            raise self.fails


def test_placement_failures_are_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    w = world()
    good, bad = Placed([]), Placed([], Transient("the tree is busy"))
    w.more = {"placers": (bad, good)}

    async def scenario(process: AgentProcess) -> None:
        await process.placing.place()
        await process.placing.place()
        assert b'cotenant_agent_placing_failures_total{what="bad"} 2.0' in process.metrics.page()

    live(w, scenario)
    assert len(good.seen) == 2
    assert caplog.text.count("the tree is busy") == 1


def test_accelerators_and_the_cache_are_on_the_pages() -> None:
    w = world()
    w.gpus = (GpuCounters(0, "GPU-1", "H100", False, 40, 80 * GIB, 20 * GIB),)
    use = CacheUse("BE", 4096, 1 << 20, None)
    w.more = {
        "cache_use": lambda: (use,),
        "network": lambda pod: (7, 9),
        "gaps": (Gap("classes of the uplink", "more rights"),),
    }

    async def scenario(process: AgentProcess) -> None:
        await w.tick(process, 2)
        state = process.agent.state()
        assert state is not None
        page = process.state_page(state)
        assert (page.gpus, page.cache) == (w.gpus, (use,))
        assert page.gaps[0].what == "classes of the uplink"
        told = process.metrics.page().decode()
        for line in (
            'cotenant_gpu_utilisation_ratio{gpu="GPU-1"} 0.4',
            'cotenant_gpu_healthy{gpu="GPU-1"} 0.0',
            'cotenant_cache_occupancy_bytes{class="BE"} 4096.0',
            'cotenant_pod_network_sent_bytes_total{group="top/web",pod="shop/web",qos="LS",tenant="shop"} 9.0',
            'cotenant_node_gap_info{needs="more rights",what="classes of the uplink"} 1.0',
        ):
            assert line in told

    live(w, scenario)


# ---- interference, by the file


def test_an_antagonist_is_capped_and_explained(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("""
mode: act
writable: [top]
groups:
  - {group: top/web, name: shop/web, qos: LS, objective_p99_ms: 5}
  - {group: top/job, name: jobs/one, qos: BE}
  - {group: top/calm, name: jobs/two, qos: BE}
policies:
  best_effort_cpu: null
  burst: null
  interference:
    {every_us: 1000000, sample_us: 1000000, window_us: 20000000, outliers: 3, threshold_ppm: 200000, cap_us: 5000000}
""")
    w = World(read_config(file))

    async def scenario(process: AgentProcess) -> None:
        for second in range(16):
            loud = second % 2 == 0 or second > 8
            w.use = {"top/web": 1000, "top/job": 2400 if loud else 100, "top/calm": 400}
            w.delay_ppm = {"top/web": 900_000 if loud else 20_000}
            await w.tick(process)
            if w.knobs.snapshot():
                break
        assert w.knobs.snapshot() == {KnobTarget("top/job", Knob.CPU_MAX): "10000 100000"}
        story = process.agent.explain("jobs/one")
        assert story is not None
        assert "first among 2 is jobs/one" in " ".join(story.text)
        w.use, w.delay_ppm = {"top/web": 1000, "top/job": 100}, {}
        await w.tick(process, 8)
        assert w.knobs.snapshot() == {}  # its time is over

    live(w, scenario)


def test_a_culprit_is_held_proven_and_the_service_has_a_story(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("""
mode: act
writable: [top]
groups:
  - {group: top/web, name: shop/web, qos: LS, objective_p99_ms: 5}
  - {group: top/job, name: jobs/one, qos: BE}
  - {group: top/calm, name: jobs/two, qos: BE}
policies:
  best_effort_cpu: null
  burst: null
  recovery: {rungs: [cap, idle], max_action: idle, lease_us: 5000000, attribution: {signals: [run-delay]}}
""")
    w = World(read_config(file))

    async def scenario(process: AgentProcess) -> None:
        held = KnobTarget("top/job", Knob.CPU_MAX)
        for second in range(40):
            limited = held in w.knobs.snapshot()
            loud = second > 12 and not limited
            w.use = {"top/web": 1000, "top/job": 1400 if loud else 100, "top/calm": 400 + 50 * (second % 3)}
            w.delay_ppm = {"top/web": 900_000 if loud else 20_000}
            await w.tick(process)
            story = process.agent.service_story("shop/web")
            assert story is not None
            if story.incidents and story.incidents[0].stage == "holding":
                break
        assert w.knobs.snapshot() == {held: "42000 100000"}
        (incident,) = story.incidents
        assert (incident.cause, incident.culprit) == ("pod", "jobs/one")
        assert [link.link for link in incident.chain if link.link != "evidence"] == [
            "objective",
            "burn",
            "victim",
            "cause",
            "action",
            "recovery",
        ]
        assert incident.recovered_after_us is not None
        assert any(line.startswith("  action") and "cap for jobs/one helped" in line for line in story.text)
        w.use, w.delay_ppm = {"top/web": 1000, "top/job": 100, "top/calm": 400}, {"top/web": 20_000}
        await w.tick(process, 20)
        assert w.knobs.snapshot() == {}  # its time is over
        story = process.agent.service_story("shop/web")
        assert story is not None
        assert story.incidents[0].stage == "recovered"
        told = process.metrics.page().decode()
        for line in (
            'cotenant_agent_incidents{stage="holding"} 0.0',
            'cotenant_agent_recovery_actions_total{outcome="helped",rung="cap"} 1.0',
            'cotenant_agent_recovery_actions_total{outcome="no effect",rung="cap"} 0.0',
        ):
            assert line in told

    live(w, scenario)
