"""Best effort's disk limit follows the services' waiting; weights and fixed limits stand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.node.node_pods import SECOND, node, pod, using

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.kubelet.facts import KubeletFacts
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.model.machine.knob_values import canonical
from cotenant.model.machine.node_pod import NodeContainer
from cotenant.model.machine.node_state import GroupUse, NodeState
from cotenant.policy.nodeqos.io.disk import IoConfig, IoMemory, decide
from cotenant.policy.nodeqos.io.disk_limits import BLKIO_QOS, BlockDevice, IoLimits

MB = 10**6
FOLLOW = IoConfig(devices=(BlockDevice("8:0"),), follow_services=True)
MAX = KnobTarget("be", Knob.IO_MAX)


def state(second: int, stall_ppm: int | None, written: int | None = 100 * MB) -> NodeState:
    return node(
        [using(pod("s", QoSClass.LS), io_stall_ppm=stall_ppm), using(pod("b", group="be/b"))],
        at_us=second * SECOND,
        best_effort=GroupUse("be", io_read_bps=5 * MB, io_written_bps=written),
        best_effort_group="be",
    )


def test_on_cgroup_v1_the_class_limit_is_divided_among_containers_since_a_common_one_holds_for_no_process() -> None:
    pods = [using(pod("s", QoSClass.LS), io_stall_ppm=None)]
    for name in ("a", "b"):
        containers = tuple(NodeContainer(entry, f"be/{name}/{entry}") for entry in ("main", "log"))
        pods.append(using(replace(pod(name, group=f"be/{name}"), containers=containers)))
    config = IoConfig(devices=(BlockDevice("8:0"),), best_effort=IoLimits(read_bps=40 * MB, write_iops=10))
    for version, groups, limit in (
        (
            1,
            {f"be/{name}" for name in ("a/main", "a/log", "b/main", "b/log")},
            "8:0 rbps=10000000 wbps=max riops=max wiops=10",
        ),
        (2, {"be"}, "8:0 rbps=40000000 wbps=max riops=max wiops=10"),
    ):
        here = replace(node(pods, best_effort_group="be"), kubelet=KubeletFacts(cgroup_version=version))
        verdict, _ = decide(here, config, IoMemory())
        assert {(wish.target.group, wish.value) for wish in verdict.knobs} == {(group, limit) for group in groups}


def run(stalls: list[int | None], config: IoConfig = FOLLOW, written: int = 100 * MB) -> list[int | None]:
    memory, limits = IoMemory(), []
    for second, stall in enumerate(stalls):
        verdict, memory = decide(state(second, stall, written), config, memory)
        assert verdict.reasons
        limits.append(memory.limit_bps)
        wish = [knob.value for knob in verdict.knobs]
        limit = memory.limit_bps
        assert wish == ([] if limit is None else [f"8:0 rbps={limit} wbps={limit} riops=max wiops=max"])
    return limits


def test_cut_at_once_then_after_each_dwell() -> None:
    assert run([0, 200_000, 200_000, 200_000, 200_000, 200_000]) == [
        None,
        50 * MB,
        50 * MB,
        25 * MB,
        25 * MB,
        12_500_000,
    ]


def test_grow_slowly_when_calm_and_let_go_far_above_what_was_moved() -> None:
    limits = run([200_000] + [10_000] * 200)
    assert limits[:12] == [50 * MB] * 11 + [60 * MB]
    assert limits[21] == 72 * MB
    assert limits[-1] is None
    highest = max(limit for limit in limits if limit is not None)
    assert 300 * MB < highest <= 400 * MB


def test_between_calm_and_hurt_nothing_changes_and_calm_starts_again() -> None:
    limits = run([200_000] + [10_000] * 9 + [60_000] + [10_000] * 9)
    assert set(limits) == {50 * MB}


def test_best_effort_that_moves_nothing_is_not_the_cause() -> None:
    idle = replace(state(0, 500_000), best_effort=GroupUse("be", io_read_bps=10, io_written_bps=10))
    verdict, memory = decide(idle, FOLLOW, IoMemory())
    assert memory == IoMemory()
    assert "not the cause" in verdict.reasons[0].text


def test_unknown_stall_keeps_the_limit() -> None:
    assert run([200_000, None, None]) == [50 * MB] * 3


def test_the_limit_never_falls_below_the_least() -> None:
    assert run([500_000] * 60)[-1] == FOLLOW.min_bps


@pytest.mark.slow
@given(st.lists(st.one_of(st.none(), st.integers(0, 1_000_000)), max_size=60), st.integers(0, 10**10))
def test_a_limit_is_always_at_least_the_least(stalls: list[int | None], written: int) -> None:
    assert all(limit is None or limit >= FOLLOW.min_bps for limit in run(stalls, written=written))


def test_fixed_limits_weights_and_the_tighter_of_two() -> None:
    config = replace(
        FOLLOW, best_effort=IoLimits(read_bps=20 * MB, write_iops=100), best_effort_weight=10, service_weight=500
    )
    verdict, _ = decide(state(1, 200_000), config, IoMemory())
    assert {str(knob.target): knob.value for knob in verdict.knobs} == {
        "/be:io.max": f"8:0 rbps={20 * MB} wbps={50 * MB} riops=max wiops=100",
        "/be:io.weight": "default 10",
        "/pods/s:io.weight": "default 500",
    }


def test_without_a_group_for_all_each_best_effort_pod_has_the_limit() -> None:
    alone = replace(
        state(1, 200_000),
        best_effort=None,
        best_effort_group=None,
        pods=(
            using(pod("s", QoSClass.LS), io_stall_ppm=200_000),
            using(pod("b"), io_read_bps=0, io_written_bps=40 * MB),
        ),
    )
    verdict, _ = decide(alone, FOLLOW, IoMemory())
    assert [(knob.target.group, knob.value) for knob in verdict.knobs] == [
        ("pods/b", f"8:0 rbps={20 * MB} wbps={20 * MB} riops=max wiops=max")
    ]


def test_best_effort_outside_the_common_group_is_counted_and_limited() -> None:
    both = state(1, 200_000, written=60 * MB)
    elsewhere = using(pod("b2"), io_read_bps=0, io_written_bps=40 * MB)
    verdict, _ = decide(replace(both, pods=(*both.pods, elsewhere)), FOLLOW, IoMemory())
    value = f"8:0 rbps={50 * MB} wbps={50 * MB} riops=max wiops=max"
    assert [(knob.target.group, knob.value) for knob in verdict.knobs] == [("be", value), ("pods/b2", value)]


def test_a_pods_annotation() -> None:
    written = (
        '{"blocks": [{"name": "/dev/sda", "type": "device", "ioCfg": {"readBPS": 1000, "writeIOPS": 0, '
        '"ioWeightPercent": 40}}]}'
    )
    config = IoConfig(devices=(BlockDevice("8:0", ("/dev/sda",)), BlockDevice("8:16", ("/dev/sdc",))))

    def said(text: str) -> tuple[dict[str, str], str]:
        one = pod("s", QoSClass.LS, annotations={BLKIO_QOS: text})
        verdict, _ = decide(node([using(one)]), config, IoMemory())
        return {knob.target.knob: knob.value for knob in verdict.knobs}, verdict.reasons[-1].text

    assert said(written)[0] == {"io.max": "8:0 rbps=1000 wbps=max riops=max wiops=max", "io.weight": "default 40"}
    for wrong in ("{", written.replace("sda", "sdb"), written.replace("1000", "-1")):
        assert said(wrong)[0] == {}
        assert "test/s" in said(wrong)[1]
    other = '{"name": "8:16", "type": "device", "ioCfg": {"writeBPS": 5}}'
    assert said(written.replace("]}", f", {other}]}}"))[0]["io.max"].splitlines() == [
        "8:0 rbps=1000 wbps=max riops=max wiops=max",
        "8:16 rbps=max wbps=5 riops=max wiops=max",
    ]
    weightless, why = said(written.replace("40", "0"))
    assert list(weightless) == ["io.max"]
    assert "weight 0" in why


def test_a_best_effort_pods_annotation_lifts_no_limit_of_its_class() -> None:
    """Neither by a number that no kernel takes, with which the others would be refused, nor by a weight."""
    config = IoConfig(devices=(BlockDevice("8:0"),), best_effort=IoLimits(read_bps=MB))

    def said(qos: QoSClass, group: str, settings: str) -> dict[str, str]:
        text = f'{{"blocks": [{{"name": "8:0", "type": "device", "ioCfg": {{{settings}}}}}]}}'
        one = pod("b", qos, annotations={BLKIO_QOS: text}, group=group)
        verdict, _ = decide(replace(node([using(one)]), best_effort_group="be"), config, IoMemory())
        return {knob.target.knob: knob.value for knob in verdict.knobs if knob.target.group == group}

    limit = f"8:0 rbps={MB} wbps=max riops=max wiops=max"
    for odd in ("1" + "0" * 20, "9" * 40, str(1 << 63)):
        assert said(QoSClass.BE, "pods/b", f'"writeIOPS": {odd}') == {"io.max": limit}
    heavy = '"ioWeightPercent": 10000'
    assert said(QoSClass.BE, "pods/b", heavy) == {"io.max": limit, "io.weight": "default 100"}
    assert said(QoSClass.BE, "pods/b", '"ioWeightPercent": 10')["io.weight"] == "default 10"
    assert said(QoSClass.BE, "be/b", heavy) == {"io.weight": "default 10000"}  # among best-effort pods
    assert said(QoSClass.LS, "pods/b", heavy) == {"io.weight": "default 10000"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"devices": (BlockDevice("8:0"), BlockDevice("8:0"))},
        {"best_effort": IoLimits(read_bps=1)},
        {"follow_services": True},
        {"best_effort_weight": 0},
        {"service_weight": 10_001},
        {"cut_percent": 100},
        {"lift_percent": 100},
        {"calm_ppm": 200_000},
        {"min_bps": 0},
    ],
)
def test_configurations(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        IoConfig(**wrong)  # type: ignore[arg-type]


def test_every_device_is_limited_alike_in_the_kernels_order() -> None:
    config = replace(FOLLOW, devices=(BlockDevice("259:1"), BlockDevice("8:16"), BlockDevice("8:0")))
    verdict, _ = decide(state(1, 200_000), config, IoMemory())
    (knob,) = verdict.knobs
    assert knob.value == canonical(Knob.IO_MAX, knob.value)
    assert [line.split()[0] for line in knob.value.splitlines()] == ["8:0", "8:16", "259:1"]


@pytest.mark.parametrize("number", ["sda", "8", "8:", ":0", "8:0:0", "-8:0", "²:0", "99999999:0"])
def test_devices_are_numbers(number: str) -> None:
    with pytest.raises(InvalidInput):
        BlockDevice(number)
