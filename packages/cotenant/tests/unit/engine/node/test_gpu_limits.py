"""Limits of a share of a GPU at a container's start, and the verdict of a node."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.engine.node.test_first_values import BELIEVING, WORK, pod

from cotenant.engine.node.first_values import FirstValueFacts, FirstValueSettings, first_values
from cotenant.engine.node.gpu_limits import ShareContainer, ShareVerdict, shares_held, shares_now
from cotenant.model.cluster.seal import SealStanding
from cotenant.model.devices.allocation import DEVICE_ALLOCATED
from cotenant.model.devices.shares import HELD_BY_MPS, HookedShares
from cotenant.model.machine.counters import EXCLUSIVE_PROCESS, GpuCounters
from cotenant.model.machine.first_values import BindMount, FirstValueRefusal
from cotenant.model.machine.node_pod import NodePod

PIPE = "/run/mps"
GPUS = tuple(
    GpuCounters(index, f"GPU-{index}", "H100", True, 0, 80 << 30, 0, compute_mode=EXCLUSIVE_PROCESS)
    for index in range(2)
)
HOLDING = replace(BELIEVING, mps_pipe=PIPE, mps_shared_memory="/run/mps-shm")
FACTS = FirstValueFacts(gpus=GPUS, mps_answers=True)
LIMITS = (
    ("CUDA_MPS_PIPE_DIRECTORY", PIPE),
    ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"),
    ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "0=40960M"),
)


def allocated(core: str = "50", ratio: str = "50") -> dict[str, str]:
    amounts = {"koordinator.sh/gpu-core": core, "koordinator.sh/gpu-memory-ratio": ratio}
    return {DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 1, "resources": amounts}]})}


def test_a_share_starts_with_the_daemons_pipe_and_its_limits() -> None:
    values = first_values(pod("LS", annotations=allocated()), WORK, FACTS, HOLDING)
    assert values.environment == (("NVIDIA_VISIBLE_DEVICES", "GPU-1"), *LIMITS)
    assert values.mounts == (BindMount(PIPE, PIPE), BindMount("/run/mps-shm", "/dev/shm"))
    assert not values.left_out


@pytest.mark.parametrize(
    ("annotations", "variables", "facts", "settings", "cause"),
    [
        (allocated("100", "100"), (), FACTS, HOLDING, None),
        (allocated(), (), FACTS, replace(HOLDING, mps_pipe=""), None),
        (allocated(), (), replace(FACTS, mps_answers=False), HOLDING, FirstValueRefusal.NO_DAEMON),
        (allocated(), ("CUDA_MPS_PIPE_DIRECTORY",), FACTS, HOLDING, FirstValueRefusal.OWN_LIMITS),
        (allocated(), ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",), FACTS, HOLDING, FirstValueRefusal.OWN_LIMITS),
        (allocated(), ("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",), FACTS, HOLDING, FirstValueRefusal.OWN_LIMITS),
        (allocated(), (), FACTS, replace(HOLDING, believed=frozenset()), FirstValueRefusal.UNTRUSTED),
    ],
)
def test_what_gets_no_limits(
    annotations: dict[str, str],
    variables: tuple[str, ...],
    facts: FirstValueFacts,
    settings: FirstValueSettings,
    cause: FirstValueRefusal | None,
) -> None:
    container = replace(WORK, variables=frozenset(variables))
    values = first_values(pod("LS", annotations=annotations), container, facts, settings)
    assert not [name for name, _ in values.environment if name.startswith("CUDA_MPS")]
    assert not values.mounts
    assert [left_out.cause for left_out in values.left_out] == ([] if cause is None else [cause])


def test_what_a_pods_owner_writes_is_no_share() -> None:
    """Neither in an annotation without the scheduler's seal, nor as variables that look like the limits."""
    forged = replace(pod("LS", annotations=allocated("100", "90")), holdings=SealStanding.REFUSED)
    values = first_values(forged, WORK, FACTS, HOLDING)
    assert (values.environment, values.mounts) == ((), ())
    assert shares_now([ShareContainer(forged, "work", ())], GPUS, pipe=PIPE, answers=True).unlimited_count == 0


def container(given: NodePod, *variables: tuple[str, str], name: str = "work") -> ShareContainer:
    return ShareContainer(given, name, variables)


def test_a_container_with_a_share_and_other_limits_is_named() -> None:
    given = pod("LS", annotations=allocated())
    more = (LIMITS[0], ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "90"), LIMITS[2])
    whole = pod("LS", annotations=allocated("100", "100"))
    running = [container(given, *LIMITS), container(given, *more, name="more"), container(given, name="none")]
    seen = shares_now([*running, container(whole)], GPUS, pipe=PIPE, answers=True)
    assert seen == HookedShares(PIPE, True, ("shop/cart-1/more", "shop/cart-1/none"), 2)
    many = [container(given, name=f"c{number}") for number in range(9)]
    seen = shares_now(many, GPUS, pipe=PIPE, answers=True)
    assert (len(seen.unlimited), seen.unlimited_count) == (4, 9)
    assert shares_now(many, GPUS, pipe="", answers=True) == HookedShares()


def with_mode(mode: str) -> tuple[GpuCounters, ...]:
    return (GPUS[0], replace(GPUS[1], compute_mode=mode))


@pytest.mark.parametrize(
    ("gpus", "hook", "asked", "by", "why"),
    [
        (GPUS, HookedShares(PIPE, True), True, HELD_BY_MPS, ""),
        (GPUS, HookedShares(PIPE, True), False, HELD_BY_MPS, ""),  # the agent's settings are older than the hook's
        (GPUS, None, False, "", ""),
        (GPUS, HookedShares(), False, "", ""),
        (GPUS, None, True, "", "no runtime hook that acts"),
        (GPUS, HookedShares(), True, "", "no runtime hook that acts"),
        ((), HookedShares(PIPE, True), True, "", "no GPU of this node is known"),
        (GPUS, HookedShares(PIPE, False), True, "", "no MPS control daemon answers at /run/mps"),
        (with_mode("default"), HookedShares(PIPE, True), True, "", "the compute mode of GPU 1 is default"),
        (with_mode(""), HookedShares(PIPE, True), True, "", "the compute mode of GPU 1 is not known"),
        (GPUS, HookedShares(PIPE, True, ("a/b/c",), 1), True, "", "a/b/c: a share, and not its limits"),
        (GPUS, HookedShares(PIPE, True, ("a/b/c",), 3), True, "", "a/b/c and 2 more"),
    ],
)
def test_a_node_holds_shares_where_all_of_it_was_seen(
    gpus: tuple[GpuCounters, ...], hook: HookedShares | None, asked: bool, by: str, why: str
) -> None:
    verdict = shares_held(gpus, hook, asked=asked)
    assert verdict.by == by
    assert why in verdict.why
    assert verdict == ShareVerdict() or bool(verdict.by) != bool(verdict.why)
