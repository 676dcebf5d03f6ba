"""Memory eviction: how much, who, the rest after it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.node.node_pods import GB, SECOND, node, pod, using

from cotenant.model.cluster.qos import QoSClass
from cotenant.model.errors import InvalidInput
from cotenant.model.machine.node_state import Allocatable
from cotenant.policy.nodeqos.eviction.goals import AllocatableTrigger, BestEffortMemoryTrigger, Currency, UsedTrigger
from cotenant.policy.nodeqos.eviction.memory import MemoryEvictionConfig, MemoryEvictionMemory, decide

BEST_EFFORT = MemoryEvictionConfig(best_effort=BestEffortMemoryTrigger())


def test_best_effort_leaves_until_the_lower_mark_and_the_terms_add_up() -> None:
    pods = [using(pod("a"), working_set_bytes=3 * GB), using(pod("b"), working_set_bytes=6 * GB)]
    verdict, memory = decide(node(pods, memory_used_bytes=75 * GB), BEST_EFFORT, MemoryEvictionMemory())
    assert [(e.key, e.frees_memory_bytes) for e in verdict.evictions] == [("test/b", 6 * GB), ("test/a", 3 * GB)]
    assert sum(term.value for term in verdict.reasons[0].terms) == 7 * GB
    again, memory = decide(node(pods, at_us=103_999_999, memory_used_bytes=75 * GB), BEST_EFFORT, memory)
    assert not again.evictions
    assert "cooling down" in again.reasons[0].text
    assert decide(node(pods, at_us=104 * SECOND, memory_used_bytes=75 * GB), BEST_EFFORT, memory)[0].evictions


def test_one_small_pod_is_not_enough_for_a_large_need() -> None:
    """The upstream's unit error would have the first pod free a thousand times what it has."""
    config = MemoryEvictionConfig(used=UsedTrigger(80, 7999))
    opted = {"koordinator.sh/eviction-enabled": "true"}
    pods = [using(pod(f"p{i}", labels=opted), working_set_bytes=GB) for i in range(5)]
    verdict, _ = decide(node(pods, memory_used_bytes=81 * GB), config, MemoryEvictionMemory())
    assert len(verdict.evictions) == 3


def test_what_is_short_is_said() -> None:
    pods = [using(pod("a"), working_set_bytes=GB), using(pod("service", QoSClass.LS), working_set_bytes=60 * GB)]
    verdict, _ = decide(node(pods, memory_used_bytes=75 * GB), BEST_EFFORT, MemoryEvictionMemory())
    assert [e.key for e in verdict.evictions] == ["test/a"]
    assert verdict.reasons[-1].terms[0].value == 6 * GB


def test_the_charge_counts_where_the_working_set_is_not_known() -> None:
    pods = [using(pod("a"), memory_bytes=9 * GB)]
    verdict, _ = decide(node(pods, memory_used_bytes=75 * GB), BEST_EFFORT, MemoryEvictionMemory())
    assert verdict.evictions[0].frees_memory_bytes == 9 * GB


def test_requests_beyond_what_the_node_still_has() -> None:
    config = MemoryEvictionConfig(allocatable=AllocatableTrigger(80, 70, 5999))
    opted = {"koordinator.sh/eviction-enabled": "true"}
    pods = [using(pod("a", memory_bytes=2 * GB, labels=opted)), using(pod("b", memory_bytes=9 * GB, labels=opted))]
    assert not decide(node(pods), config, MemoryEvictionMemory())[0].evictions  # pools are not known
    known = replace(config, pools_bytes=((Currency.REQUESTED_BATCH, 10 * GB),))
    assert [e.key for e in decide(node(pods), known, MemoryEvictionMemory())[0].evictions] == ["test/b"]
    told = replace(node(pods), allocatable=Allocatable(batch_memory_bytes=10 * GB))
    assert [e.key for e in decide(told, config, MemoryEvictionMemory())[0].evictions] == ["test/b"]
    plenty = replace(known, pools_bytes=((Currency.REQUESTED_BATCH, 100 * GB),))
    assert not decide(told, plenty, MemoryEvictionMemory())[0].evictions  # what is configured wins


def test_pods_that_no_source_has_named_are_neither_counted_nor_evicted() -> None:
    nameless = using(replace(pod("a"), is_named=False), working_set_bytes=3 * GB)
    verdict, memory = decide(node([nameless], memory_used_bytes=75 * GB), BEST_EFFORT, MemoryEvictionMemory())
    assert (verdict.evictions, memory.evicted_at_us) == ((), None)
    assert "pods known by their groups alone: 1" in " ".join(reason.text for reason in verdict.reasons)
    beside = [nameless, using(pod("b"), working_set_bytes=9 * GB)]
    verdict, _ = decide(node(beside, memory_used_bytes=75 * GB), BEST_EFFORT, memory)
    assert [eviction.key for eviction in verdict.evictions] == ["test/b"]


def test_unknown_memory_evicts_no_pod() -> None:
    state = node([using(pod("a"), working_set_bytes=GB)], memory_total_bytes=0)
    verdict, _ = decide(state, BEST_EFFORT, MemoryEvictionMemory())
    assert not verdict.evictions
    assert verdict.reasons[0].text == "the node's memory is not known"


def test_times_are_not_negative() -> None:
    with pytest.raises(InvalidInput):
        MemoryEvictionConfig(cooldown_us=-1)
