"""A NodeSLO and slo-controller-config as our settings: upstream's names and defaults, and what has no counterpart
named.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cotenant.engine.node.policies import DEFAULT_POLICIES
from cotenant.model.errors import InvalidInput
from cotenant.policy.nodeqos.burst.config import BurstPolicy
from cotenant.policy.nodeqos.cpu.suppression import SuppressionForm
from cotenant.policy.nodeqos.eviction.satisfaction import SatisfactionOf
from cotenant.services.agent_settings.config import read_config
from cotenant.services.agent_settings.koordinator import not_taken, policies_of, read_node_slo

SPEC: dict[str, Any] = {
    "resourceUsedThresholdWithBE": {
        "enable": True,
        "cpuSuppressThresholdPercent": 80,
        "cpuSuppressMinPercent": 10,
        "cpuSuppressPolicy": "cfsQuota",
        "memoryEvictThresholdPercent": 75,
        "cpuEvictBESatisfactionLowerPercent": 40,
        "cpuEvictBESatisfactionUpperPercent": 60,
        "cpuEvictPolicy": "evictByAllocatable",
        "cpuEvictTimeWindowSeconds": 30,
    },
    "resourceQOSStrategy": {
        "policies": {"cpuPolicy": "groupIdentity"},
        "lsClass": {
            "cpuQOS": {"enable": True, "groupIdentity": 2},
            "memoryQOS": {"enable": True, "minLimitPercent": 100, "wmarkRatio": 95},
        },
        "beClass": {
            "cpuQOS": {"enable": True, "groupIdentity": -1, "schedIdle": 1},
            "memoryQOS": {"enable": True, "throttlingPercent": 80},
            "resctrlQOS": {"enable": True, "catRangeEndPercent": 20, "mbaPercent": 50},
            "blkioQOS": {"enable": True, "blocks": [{"name": "vda", "ioCfg": {"ioWeightPercent": 40, "readBPS": 1}}]},
            "networkQOS": {"enable": True, "egressLimit": "50M"},
        },
        "systemClass": {"memoryQOS": {"enable": False}},
    },
    "cpuBurstStrategy": {"policy": "auto", "cpuBurstPercent": 500, "sharePoolThresholdPercent": 60},
    "systemStrategy": {"minFreeKbytesFactor": 100},
}


def test_every_group_of_a_node_slo() -> None:
    found = policies_of(read_node_slo({"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "spec": SPEC}))
    assert found.best_effort_cpu is not None
    suppress = found.best_effort_cpu.suppress
    assert (suppress.enabled, suppress.threshold_percent, suppress.min_percent, suppress.form) == (
        True,
        80,
        10,
        SuppressionForm.QUOTA,
    )
    assert found.best_effort_cpu.idle
    assert found.memory_eviction is not None
    assert found.memory_eviction.best_effort is not None
    assert found.memory_eviction.best_effort.threshold_percent == 75
    assert found.cpu_eviction is not None
    satisfaction = found.cpu_eviction.satisfaction
    assert satisfaction is not None
    assert (satisfaction.lower_percent, satisfaction.upper_percent, satisfaction.used_percent) == (40, 60, 90)
    assert satisfaction.measured_against is SatisfactionOf.ALLOCATABLE
    assert found.cpu_eviction.window_us == 30_000_000
    assert found.memory is not None
    assert (found.memory.ls.min_percent, found.memory.best_effort.throttling_percent) == (100, 80)
    assert found.cache is not None
    assert (found.cache.best_effort.end_percent, found.cache.best_effort.bandwidth_percent) == (20, 50)
    assert found.io is not None
    assert (found.io.best_effort_weight, found.io.service_weight) == (40, None)
    assert found.burst is not None
    assert (found.burst.policy, found.burst.burst_percent, found.burst.quota_burst_percent) == (
        BurstPolicy.AUTO,
        500,
        300,
    )
    assert found.burst.pool_threshold_percent == 60


def test_what_has_no_counterpart_is_named() -> None:
    assert not_taken(read_node_slo(SPEC)) == (
        "systemStrategy",
        "resourceQOSStrategy.lsClass.cpuQOS.groupIdentity",
        "resourceQOSStrategy.lsClass.memoryQOS.wmark",
        "resourceQOSStrategy.beClass.networkQOS",
        "resourceQOSStrategy.beClass.blkioQOS.blocks[vda]",
    )


def test_the_config_map_says_the_same() -> None:
    data = {
        "resource-threshold-config": json.dumps({"clusterStrategy": SPEC["resourceUsedThresholdWithBE"]}),
        "resource-qos-config": json.dumps({"clusterStrategy": SPEC["resourceQOSStrategy"]}),
        "cpu-burst-config": json.dumps({"clusterStrategy": SPEC["cpuBurstStrategy"]}),
        "colocation-config": "not ours",
    }
    whole = {"kind": "ConfigMap", "metadata": {"name": "slo-controller-config"}, "data": data}
    assert policies_of(read_node_slo(whole)) == policies_of(read_node_slo(data)) == policies_of(read_node_slo(SPEC))


def test_absent_settings_are_kept() -> None:
    assert policies_of(read_node_slo({})) == DEFAULT_POLICIES
    off = policies_of(read_node_slo({"resourceUsedThresholdWithBE": {}}))  # upstream: off unless enabled
    assert off.best_effort_cpu is not None
    assert not off.best_effort_cpu.suppress.enabled
    assert off.memory_eviction is None
    idle_off = policies_of(read_node_slo({"resourceQOSStrategy": {"beClass": {"cpuQOS": {"schedIdle": 0}}}}))
    assert idle_off.best_effort_cpu is not None
    assert not idle_off.best_effort_cpu.idle


@pytest.mark.parametrize(
    ("given", "idle"),
    [
        ({"enable": True, "groupIdentity": -1}, True),  # upstream's default for best-effort work
        ({"enable": True, "groupIdentity": -1, "schedIdle": 0}, True),
        ({"enable": True, "groupIdentity": 0, "schedIdle": 1}, True),
        ({"enable": True, "groupIdentity": 2}, False),
        ({"enable": False, "groupIdentity": -1}, False),
    ],
)
def test_a_negative_group_identity_is_the_idle_class(given: dict[str, object], idle: bool) -> None:
    slo = read_node_slo({"resourceQOSStrategy": {"beClass": {"cpuQOS": given}}})
    found = policies_of(slo).best_effort_cpu
    assert found is not None
    assert found.idle is idle
    taken = given.get("groupIdentity", 0) <= 0 or not given["enable"]  # type: ignore[operator]
    assert not_taken(slo) == (() if taken else ("resourceQOSStrategy.beClass.cpuQOS.groupIdentity",))


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "node_slo"),
        ({"resourceUsedThresholdWithBE": {"enable": "yes"}}, "node_slo: resourceUsedThresholdWithBE.enable"),
        ({"cpuBurstStrategy": {"policy": "always"}}, "node_slo: cpuBurstStrategy.policy"),
        ({"data": {"cpu-burst-config": "{"}}, "node_slo: cpu-burst-config"),
        ({"data": {"cpu-burst-config": {}}}, "node_slo: cpu-burst-config"),
        ({"data": {"cpu-burst-config": "[]"}}, "node_slo: cpu-burst-config"),
    ],
)
def test_malformed_settings_name_their_field(document: Any, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        policies_of(read_node_slo(document))
    assert caught.value.field == field


def test_a_configuration_reads_it_from_a_file_and_logs_what_has_no_counterpart(tmp_path: Path) -> None:
    (tmp_path / "slo.json").write_text(json.dumps({"spec": SPEC}))
    file = tmp_path / "agent.yaml"
    file.write_text(
        "node_slo: slo.json\npolicies: {burst: false, best_effort_cpu: {suppress: {threshold_percent: 70}}}\n"
    )
    found = read_config(file).policies
    assert found.burst is None
    assert found.best_effort_cpu is not None
    assert (found.best_effort_cpu.suppress.threshold_percent, found.best_effort_cpu.suppress.form) == (
        70,
        SuppressionForm.QUOTA,
    )
    assert found.memory is not None
    (tmp_path / "slo.json").write_text(json.dumps({"cpuBurstStrategy": {"policy": "always"}}))
    with pytest.raises(InvalidInput, match=r"slo\.json: cpuBurstStrategy\.policy"):
        read_config(file)
