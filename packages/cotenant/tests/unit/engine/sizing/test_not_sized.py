"""Pods of which no size is found, or no lower one: sidecars, amounts of the whole pod, an end by lack of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.cluster.sizing_world import BIG, World, pod

from cotenant.model.sizes.container import ContainerProgram
from cotenant.model.sizes.right_sizing import SizingMode


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"has_sidecars": True}, "sidecars too"), ({"has_pod_resources": True}, "amounts of the whole pod")],
)
def test_such_pods_are_left(changed: dict[str, bool], said: str) -> None:
    world = World(mode=SizingMode.ACT)
    world.put(replace(world.pods["b"], **changed))  # type: ignore[arg-type]
    world.run(600)
    assert said in world.status.message
    assert world.resized == []


def test_a_pod_made_anew_with_a_sidecar_does_not_get_the_proven_size() -> None:
    world = World(mode=SizingMode.ACT)
    assert world.run(7200, lambda: bool(world.status.receipts))
    asked = len(world.resized)
    world.put(replace(pod("d"), has_sidecars=True))
    world.run(60)
    assert len(world.resized) == asked


@pytest.mark.parametrize("changed", [{"was_oom_killed": True}, {"program": ContainerProgram(("java", "-Xmx4g"))}])
def test_one_replica_that_ran_out_of_memory_or_was_told_more_keeps_it_for_all(changed: dict[str, object]) -> None:
    world = World(mode=SizingMode.SUGGEST)
    of = world.pods["c"]
    world.put(replace(of, containers=(replace(of.containers[0], **changed),)))  # type: ignore[arg-type]
    assert world.run(600, lambda: world.status.suggestion is not None)
    assert world.status.suggestion is not None
    after = world.status.suggestion.after
    assert (after.memory_request_bytes or 0) >= (BIG.memory_request_bytes or 0)
    assert (after.memory_limit_bytes or 0) >= (BIG.memory_limit_bytes or 0)
    assert (after.cpu_request_m or 0) < (BIG.cpu_request_m or 0)
