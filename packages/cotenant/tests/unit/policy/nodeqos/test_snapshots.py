"""What policies of this room answer to drawn inputs, as recorded: tests/snapshot."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import pytest
from tests.snapshot.drawing import Draw, json_of, labelled, one_of
from tests.snapshot.room import Room, short

from cotenant.model.cluster.annotations import DO_NOT_DISRUPT
from cotenant.model.cluster.labels import QOS_CLASS, SUB_PRIORITY
from cotenant.model.machine.knob import Knob, KnobTarget
from cotenant.policy.nodeqos import amounts, available, batch_resources, percentages, wording
from cotenant.policy.nodeqos.burst import config as burst_config
from cotenant.policy.nodeqos.burst import normalise, throttle_tokens
from cotenant.policy.nodeqos.burst import policy as burst_policy
from cotenant.policy.nodeqos.burst.config import ANNOTATION as BURST
from cotenant.policy.nodeqos.cpu import allowance, best_effort, choice, division, own_cpus, startup_grace, suppression
from cotenant.policy.nodeqos.eviction import cpu, goals, leaving, memory, memory_pressure, satisfaction, victims
from cotenant.policy.nodeqos.guard import (
    alarms,
    bound,
    signals,
    step,
    track,
)
from cotenant.policy.nodeqos.guard import (
    policy as guard_policy,
)
from cotenant.policy.nodeqos.io import disk, disk_limits, network
from cotenant.policy.nodeqos.memory import cache, protection, reclaim

GROUPS = ("kubepods", "kubepods/besteffort", "kubepods/besteffort/a", "kubepods/besteffort/b", "kubepods/c", "")
AMOUNTS = (None, 0, 1, 10, 50, 100, 101, 200, 1000, 10_001)
BLOCK = json_of(
    {
        "readIOPS": AMOUNTS,
        "writeIOPS": AMOUNTS,
        "readBPS": AMOUNTS,
        "writeBPS": AMOUNTS,
        "ioWeightPercent": AMOUNTS,
    }
)


def knobs(draw: Draw) -> dict[KnobTarget, str]:
    """Readings that a kernel could give, most of them of quotas and guarantees."""
    values = ("max", "0", "1", "100", "max 100000", "50000 100000", "200000 100000", "0-3", "1,3", "4096", "x")
    kinds = (*Knob, *[Knob.CPU_MAX, Knob.MEMORY_LOW, Knob.MEMORY_MAX, Knob.CPU_WEIGHT] * 8)
    return {KnobTarget(draw.one(GROUPS), draw.one(kinds)): draw.one(values) for _ in range(draw.below(12))}


def blkio(draw: Draw) -> str:
    """Of devices of which one is not configured."""
    settings = [BLOCK(draw) for _ in range(draw.below(4))]
    blocks = [
        f'{{"type": "{draw.one(("device", "device", "volume"))}", "name": "{draw.one(("8:0", "sda", "9:9"))}", '
        f'"ioCfg": {one or "{}"}}}'
        for one in settings
    ]
    return f'{{"blocks": [{", ".join(blocks)}]}}'


MAKERS: dict[Any, Any] = {
    "knobs": knobs,
    "group": one_of(*GROUPS),
    "best_effort_group": one_of(None, "kubepods/besteffort", "kubepods/besteffort", ""),
    "number": one_of("8:0", "8:16", "253:0"),
    "uid": one_of("a", "b", "c"),
    "labels": labelled(
        {victims.EVICTION_ENABLED: ("true", "false"), SUB_PRIORITY: ("1", "x"), QOS_CLASS: ("LSR", "BE")}
    ),
    "annotations": labelled(
        {
            victims.EVICTION_PRIORITY: ("1", "-1", "x", "12345678901234"),
            victims.EVICTION_POLICY: ("[]", "{", json.dumps([one.value for one in goals.EvictionTrigger])),
            DO_NOT_DISRUPT: ("true", "1h30m", "x"),
            disk_limits.BLKIO_QOS: blkio,
            protection.MEMORY_QOS: json_of(
                {
                    "policy": ("none", "auto", "default"),
                    "minLimitPercent": AMOUNTS,
                    "lowLimitPercent": AMOUNTS,
                    "throttlingPercent": AMOUNTS,
                }
            ),
            BURST: json_of(
                {
                    "policy": ("none", "auto", "cpuBurstOnly", "cfsQuotaBurstOnly", "x"),
                    "cpuBurstPercent": AMOUNTS,
                    "cfsQuotaBurstPercent": AMOUNTS,
                    "cfsQuotaBurstPeriodSeconds": (*AMOUNTS, -1, "x", True),
                }
            ),
        }
    ),
    "text": one_of(
        None, "", "1.2", "0.5", "[]", "{", '{"policy": "auto"}', '{"cpuBurstPercent": 200}', '{"blocks": [{}]}'
    ),
}
ROOM = Room(
    Path(__file__).parent,
    (
        amounts,
        available,
        batch_resources,
        percentages,
        wording,
        burst_config,
        normalise,
        burst_policy,
        throttle_tokens,
        allowance,
        best_effort,
        choice,
        division,
        own_cpus,
        startup_grace,
        suppression,
        cpu,
        goals,
        leaving,
        memory,
        memory_pressure,
        satisfaction,
        victims,
        alarms,
        bound,
        guard_policy,
        signals,
        step,
        track,
        disk,
        disk_limits,
        network,
        cache,
        protection,
        reclaim,
    ),
    MAKERS,
)


@pytest.mark.parametrize("module", ROOM.modules, ids=short)
def test_answers_as_recorded(module: types.ModuleType) -> None:
    ROOM.compare(module)
