from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.unit.policy.nodeqos.nodes import container, in_use, node, pod

from cotenant.model.cluster.labels import QOS_CLASS, Labels
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.node_state import GroupUse, HostUse, NodeState, PodUse
from cotenant.model.machine.verdict import PolicyVerdict
from cotenant.policy.nodeqos.burst import throttle_tokens
from cotenant.policy.nodeqos.burst.config import ANNOTATION, BurstConfig, BurstPolicy, PodBurst, merged, read_annotation
from cotenant.policy.nodeqos.burst.normalise import ratio_milli, scaled_quota_us
from cotenant.policy.nodeqos.burst.policy import BurstMemory, CpuPoolState, decide, reads, shared_use

AUTO = BurstConfig(policy=BurstPolicy.AUTO)


def limited(
    limit_m: int = 2000, throttled_ppm: int = 0, used_m: int = 1500, qos: QoSClass = QoSClass.LS, **fields: Any
) -> PodUse:
    told = pod("p", qos, **{"group": "pods/p", "containers": (container("c", limit_m),)} | fields)
    use = GroupUse("pods/p/c", cpu_m=used_m, throttled_ppm=throttled_ppm)
    return PodUse(told, GroupUse("pods/p", cpu_m=used_m), (use,) * len(told.containers))


def at(second: float, entry: PodUse, used_m: int = 1500, **knobs: str) -> NodeState:
    standing = {KnobTarget(f"pods/{name}".replace("_", "/"), Knob.CPU_MAX): value for name, value in knobs.items()}
    return node([entry], used_m=used_m, at_s=second, knobs=standing)


def values(verdict: PolicyVerdict) -> dict[str, str]:
    return {str(wish.target): wish.value for wish in verdict.knobs}


def test_a_throttled_container_s_quota_rises_step_by_step_with_its_pod_s() -> None:
    memory = BurstMemory()
    seen = []
    for second in range(8):
        state = at(
            second, limited(throttled_ppm=1), **({"p": "200000 100000", "p_c": "200000 100000"} if second == 0 else {})
        )
        state = (
            state
            if second == 0
            else node(state.pods, used_m=1500, at_s=second, knobs={KnobTarget("pods/p", Knob.CPU_MAX): "200000 100000"})
        )
        verdict, memory = decide(state, AUTO, memory)
        seen.append(values(verdict)["/pods/p/c:cpu.max"])
        assert values(verdict)["/pods/p:cpu.max"] == seen[-1]
    assert seen[:3] == ["240000 100000", "288000 100000", "345600 100000"]
    assert seen[-1] == "600000 100000"


def test_a_busy_pool_lowers_the_quota_and_at_the_limit_nothing_is_set() -> None:
    state = at(0, limited(throttled_ppm=1), used_m=9000, p_c="240000 100000")
    assert values(decide(state, BurstConfig(policy=BurstPolicy.QUOTA), BurstMemory())[0]) == {}
    state = at(0, limited(throttled_ppm=1), used_m=9000, p_c="600000 100000")
    verdict, _ = decide(state, BurstConfig(policy=BurstPolicy.QUOTA), BurstMemory())
    assert values(verdict) == {"/pods/p/c:cpu.max": "480000 100000"}
    assert "load of the shared CPUs: overload" in verdict.knobs[0].reason.text
    assert [term.value for term in verdict.knobs[0].reason.terms] == [200_000, 280_000]


def test_the_desired_burst_is_capped_to_the_quota() -> None:
    verdict, _ = decide(at(0, limited(), p="200000 100000"), BurstConfig(policy=BurstPolicy.STATIC), BurstMemory())
    assert values(verdict) == {"/pods/p/c:cpu.max.burst": "200000", "/pods/p:cpu.max.burst": "200000"}
    assert "of the requested 2000000 us" in verdict.knobs[0].reason.text
    small = BurstConfig(policy=BurstPolicy.STATIC, burst_percent=50)
    assert values(decide(at(0, limited()), small, BurstMemory())[0]) == {"/pods/p/c:cpu.max.burst": "100000"}


def test_tokens_run_out_and_come_back() -> None:
    config = BurstConfig(policy=BurstPolicy.QUOTA, quota_burst_percent=200, quota_burst_period_s=10)
    memory = BurstMemory()
    moves = []
    for second in range(60):
        busy = 20 <= second < 35
        entry = limited(throttled_ppm=1 if busy else 0, used_m=4000 if busy else 200)
        verdict, memory = decide(at(second, entry), config, memory)
        moves.append(values(verdict).get("/pods/p/c:cpu.max", "200000 100000"))
    assert max(moves, key=lambda move: int(move.split()[0])) == "400000 100000"
    assert moves[24] == "400000 100000"
    assert moves[34] < moves[30] < moves[29]
    assert moves[-1] == "200000 100000"
    assert len(memory.buckets) == 1
    verdict, memory = decide(node([]), config, memory)
    assert memory.buckets == ()
    assert verdict.reasons


@pytest.mark.parametrize("unknown", [None, GroupUse("pods/p/c", cpu_m=None)])
def test_use_that_is_not_known_spends_and_saves_nothing(unknown: GroupUse | None) -> None:
    config = BurstConfig(policy=BurstPolicy.QUOTA, quota_burst_percent=200, quota_burst_period_s=10)
    _, memory = decide(at(0, limited()), config, BurstMemory())
    (before,) = memory.buckets
    entry = limited()
    for second in range(1, 5):
        _, memory = decide(at(second, PodUse(entry.pod, entry.use, (unknown,))), config, memory)
    (after,) = memory.buckets
    assert (after.tokens, after.at_us) == (before.tokens, before.at_us + 4_000_000)


@pytest.mark.parametrize(
    ("used_m", "per_second"), [(4000, -100_000), (2000, 0), (1200, 0), (1180, 41_000), (0, 100_000)]
)
def test_a_bucket_changes_by_how_far_use_is_from_the_limit_and_never_beyond_its_capacity(
    used_m: int, per_second: int
) -> None:
    config = BurstConfig(policy=BurstPolicy.QUOTA, quota_burst_percent=200, quota_burst_period_s=10)
    capacity = throttle_tokens.capacity_of(10, 200)
    memory = BurstMemory()
    seen = []
    for second in range(25):
        _, memory = decide(at(second, limited(used_m=used_m)), config, memory)
        seen.append(memory.buckets[0].tokens)
    for before, after in pairwise(seen):
        assert after == max(-capacity, min(capacity, before + per_second))


def test_new_buckets_hold_up_to_half_and_not_all_the_same() -> None:
    capacity = throttle_tokens.capacity_of(100, 300)
    starts = {throttle_tokens.first(capacity, f"pod-{i}") for i in range(50)}
    assert len(starts) > 30
    assert all(0 <= start < capacity // 2 for start in starts)
    assert throttle_tokens.first(capacity, "a") == throttle_tokens.first(capacity, "a")


@pytest.mark.parametrize(
    ("fields", "burstable"),
    [
        ({"qos": QoSClass.LSR}, True),  # Guaranteed by default, no CPUs of its own
        ({"qos": QoSClass.LSR, "own_cpus": (1,)}, False),
        ({"qos": QoSClass.LSR, "labels": Labels.of({QOS_CLASS: "LSR"})}, False),
        ({"qos": QoSClass.LSE}, False),
        ({"qos": QoSClass.BE}, False),
        ({"host_application": True}, True),  # beside Kubernetes: its limit is what its owner told the agent
    ],
)
def test_pods_with_cpus_of_their_own_and_best_effort_pods_do_not_burst(fields: dict[str, Any], burstable: bool) -> None:
    verdict, _ = decide(at(0, limited(throttled_ppm=1, **fields)), AUTO, BurstMemory())
    assert bool(verdict.knobs) is burstable


def test_an_annotation_overrides_the_node_and_an_invalid_one_is_ignored() -> None:
    said = Labels.of({ANNOTATION: '{"policy": "none"}'})
    assert not decide(at(0, limited(throttled_ppm=1, annotations=said)), AUTO, BurstMemory())[0].knobs
    wrong = Labels.of({ANNOTATION: '{"policy": "always"}'})
    verdict, _ = decide(at(0, limited(throttled_ppm=1, annotations=wrong)), AUTO, BurstMemory())
    assert verdict.knobs
    assert any("annotation ignored" in reason.text for reason in verdict.reasons)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "[" * 100_000,
        '{"cpuBurstPercent": "10"}',
        '{"cpuBurstPercent": true}',
        '{"policy": 1}',
        '{"policy": []}',
    ],
)
def test_annotations_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_annotation(text)


def test_merging_refuses_what_makes_no_sense_and_keeps_what_is_not_said() -> None:
    assert read_annotation(None) is None
    assert merged(AUTO, PodBurst(burst_percent=20)) == BurstConfig(policy=BurstPolicy.AUTO, burst_percent=20)
    with pytest.raises(InvalidInput):
        merged(AUTO, PodBurst(burst_percent=20_000))


def test_the_pool_is_averaged_over_the_last_intervals() -> None:
    memory = BurstMemory(pool=((1_000_000, 16_000),) * 4)
    state, used = shared_use(at(0, limited(), used_m=0), AUTO, memory)
    assert state is CpuPoolState.OVERLOAD
    assert len(used) == 5
    state, _ = shared_use(at(0, limited(), used_m=0), AUTO, BurstMemory())
    assert state is CpuPoolState.IDLE


def test_a_fast_machine_gets_smaller_quotas_and_the_terms_say_why() -> None:
    config = BurstConfig(ratio_milli=1250)
    verdict, _ = decide(at(0, limited(), p="200000 100000"), config, BurstMemory())
    assert values(verdict) == {"/pods/p/c:cpu.max": "160000 100000", "/pods/p:cpu.max": "160000 100000"}
    reason = verdict.knobs[1].reason
    assert sum(term.value for term in reason.terms) == 160_000
    assert "1.25 x the reference" in reason.text
    batch, _ = decide(at(0, limited(qos=QoSClass.BE)), config, BurstMemory())
    assert values(batch) == {"/pods/p/c:cpu.max": "160000 100000"}


def test_ratios_are_read_exactly() -> None:
    assert [ratio_milli(text) for text in (None, " ", "1", "1.2", "0.9996", "0.1")] == [
        1000,
        1000,
        1000,
        1200,
        1000,
        100,
    ]
    for wrong in ("0", "11", "1,2", "-1", "nan", "1e3"):
        with pytest.raises(InvalidInput):
            ratio_milli(wrong)
    assert scaled_quota_us(100_000, 3000) == 33_334


def test_it_reads_the_quotas_of_limited_containers_and_their_pods() -> None:
    assert [str(target) for target in reads(at(0, limited()))] == ["/pods/p:cpu.max", "/pods/p/c:cpu.max"]
    assert reads(at(0, limited(limit_m=0))) == ()


def test_unsupported_knobs_are_not_set() -> None:
    state = node([limited(throttled_ppm=1), in_use("web", 1)], supported=frozenset())
    assert not decide(state, AUTO, BurstMemory())[0].knobs


def test_the_pool_of_a_machine_with_unknown_cpus_is_unknown() -> None:
    host = HostUse(0, 1000, memory_total_bytes=1, memory_used_bytes=0)
    state = NodeState(at_us=0, interval_us=1_000_000, host=host)
    assert shared_use(state, AUTO, BurstMemory()) == (CpuPoolState.UNKNOWN, ())
