"""CPU normalization and amplification ratios follow the ConfigMap and the CPU; a node whose ratio is not known
keeps what it has.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cotenant.engine.manager.node_ratios import NodeRatioKeeper, RatioNode
from cotenant.engine.manager.node_writes import SETTLE_S
from cotenant.model.cluster.annotations import AMPLIFICATION_RATIO
from cotenant.model.cluster.labels import Labels
from cotenant.model.cluster.managed import NORMALIZATION_ANNOTATION
from cotenant.model.cpus.basic_info import CpuInfo
from cotenant.policy.overcommit.node_ratios import AMPLIFICATION_KEY, ENABLED_LABEL, NORMALIZATION_KEY

FAST, SLOW = CpuInfo("Fast CPU", True, True), CpuInfo("Slow CPU", False, False)
MODELS = {
    "Fast CPU": {
        "baseRatio": 1.5,
        "hyperThreadEnabledRatio": 1.1,
        "turboEnabledRatio": 1.65,
        "hyperThreadTurboEnabledRatio": 1.2,
    },
    "Slow CPU": {"baseRatio": 1.0},
}


def data(normalization: Any = None, amplification: Any = None) -> dict[str, str]:
    given = {NORMALIZATION_KEY: normalization, AMPLIFICATION_KEY: amplification}
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in given.items() if value is not None
    }


ON = {"enable": True, "ratioModel": MODELS}


class World:
    """Nodes whose annotations are what was written."""

    def __init__(self, config: dict[str, str] | None, *nodes: RatioNode) -> None:
        self.now_s = 100.0
        self.engine = NodeRatioKeeper()
        self.nodes = {node.name: node for node in nodes}
        for node in nodes:
            self.engine.node_seen(node, self.now_s)
        self.engine.config_seen(config, self.now_s)
        self.loses = False
        self.writes = 0

    def run(self, passes_s: float = SETTLE_S) -> int:
        """How many nodes were written."""
        self.now_s += passes_s
        found = self.engine.decide(self.now_s)
        self.writes += len(found)
        for write in found:
            if not self.loses:
                node = self.nodes[write.node]
                field = {NORMALIZATION_ANNOTATION: "normalization", AMPLIFICATION_RATIO: "amplification"}
                self.nodes[write.node] = replace(
                    node, **{field[key]: text or "" for key, text in write.annotations.items()}
                )
                self.engine.node_seen(self.nodes[write.node], self.now_s)
        return len(found)

    def cpu(self, name: str, cpu: CpuInfo) -> None:
        self.engine.cpu_seen(name, cpu, self.now_s)


@pytest.mark.parametrize(
    ("threads", "turbo", "ratio"),
    [(False, False, "1.50"), (True, False, "1.10"), (False, True, "1.65"), (True, True, "1.20")],
)
def test_the_ratio_is_the_models_by_hyper_threading_and_turbo(threads: bool, turbo: bool, ratio: str) -> None:
    w = World(data(ON), RatioNode("n"))
    w.cpu("n", CpuInfo("Fast CPU", threads, turbo))
    assert w.run() == 1
    assert w.nodes["n"].normalization == ratio
    assert w.run() == 0


def test_without_the_keys_annotations_of_people_stay() -> None:
    w = World({"colocation-config": "{}"}, RatioNode("n", normalization="1.30", amplification='{"cpu":2}'))
    w.cpu("n", FAST)
    assert w.run() == 0


def test_a_cpu_that_is_not_in_the_table_takes_the_default_or_keeps_what_it_has() -> None:
    w = World(data(ON), RatioNode("n", normalization="1.40"), RatioNode("silent"))
    w.cpu("n", CpuInfo("Other"))
    assert w.run() == 0
    assert "Other (baseRatio)" in w.engine.unknown["n"]
    assert "not reported" in w.engine.unknown["silent"]
    w.engine.config_seen(data({**ON, "defaultRatio": 1.25}), w.now_s)
    assert w.run() == 2
    assert {node.normalization for node in w.nodes.values()} == {"1.25"}
    assert w.engine.unknown == {}


def test_switched_off_it_becomes_one_and_never_appears_by_itself() -> None:
    w = World(data({**ON, "enable": False}), RatioNode("with", normalization="1.20"), RatioNode("without"))
    assert w.run() == 1
    assert (w.nodes["with"].normalization, w.nodes["without"].normalization) == ("1.00", "")


def test_node_strategies_and_the_nodes_label_win() -> None:
    config = {**ON, "nodeConfigs": [{"nodeSelector": {"matchLabels": {"pool": "b"}}, "enable": False}]}
    pool = {"pool": "b"}
    nodes = [
        RatioNode("a"),
        RatioNode("b", labels=Labels.of(pool), normalization="1.20"),
        RatioNode("on", labels=Labels.of({**pool, ENABLED_LABEL: "true"})),
        RatioNode("off", labels=Labels.of({ENABLED_LABEL: "false"}), normalization="1.20"),
    ]
    w = World(data(config), *nodes)
    for node in nodes:
        w.cpu(node.name, FAST)
    w.run()
    assert {name: node.normalization for name, node in w.nodes.items()} == {
        "a": "1.20",
        "b": "1.00",
        "on": "1.20",
        "off": "1.00",
    }


def test_amplification_is_the_configured_ratio_times_normalization_in_one_write() -> None:
    w = World(data(ON, {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5, "memory": 1.1}}), RatioNode("n"))
    w.cpu("n", FAST)
    assert w.run() == 1
    assert (w.nodes["n"].normalization, w.nodes["n"].amplification) == ("1.20", '{"cpu":1.8,"memory":1.1}')
    w.engine.config_seen(data(ON, {"enable": False}), w.now_s)
    assert w.run() == 1
    assert (w.nodes["n"].normalization, w.nodes["n"].amplification) == ("1.20", "")


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        (NORMALIZATION_KEY, {"enable": "yes"}, "cpu-normalization-config.enable: yes"),
        (NORMALIZATION_KEY, {"ratioModel": {"X": {"baseRatio": 7}}}, "ratioModel[X].baseRatio: 7"),
        (NORMALIZATION_KEY, {"defaultRatio": "fast"}, "defaultRatio: fast"),
        (NORMALIZATION_KEY, {"nodeConfigs": [{"ratioModel": []}]}, ""),
        (NORMALIZATION_KEY, {"nodeConfigs": [{"defaultRatio": -1}]}, "nodeConfigs[0].defaultRatio: -1"),
        (NORMALIZATION_KEY, "{", "cpu-normalization-config"),
        (AMPLIFICATION_KEY, {"resourceAmplificationRatio": {"cpu": 0.5}}, "resourceAmplificationRatio.cpu: 0.5"),
        (AMPLIFICATION_KEY, {"nodeConfigs": {}}, ""),
        (AMPLIFICATION_KEY, {"nodeConfigs": [3]}, "nodeConfigs"),
    ],
)
def test_a_key_with_an_error_keeps_what_was_in_force(key: str, value: Any, path: str) -> None:
    good = data(ON, {"enable": True, "resourceAmplificationRatio": {"cpu": 1.5}})
    w = World(good, RatioNode("n"))
    w.cpu("n", FAST)
    w.run()
    w.engine.config_seen({**good, key: value if isinstance(value, str) else json.dumps(value)}, w.now_s)
    if path:
        (said,) = w.engine.config.refused
        assert path in said
        assert w.run() == 0
    else:
        assert w.engine.config.refused == ()
    assert w.nodes["n"].normalization == "1.20"


def test_a_ratio_below_one_is_not_written() -> None:
    w = World(data({"enable": True, "ratioModel": {"Slow CPU": {"baseRatio": 0.82}}}), RatioNode("n"))
    w.cpu("n", SLOW)
    assert w.run() == 0
    assert "0.82" in w.engine.unknown["n"]


def test_a_lost_write_is_issued_again_and_a_node_that_leaves_is_not_written() -> None:
    w = World(data(ON), RatioNode("n"))
    w.cpu("n", FAST)
    w.loses = True
    at = [second for second in range(100) if w.run(1.0)]
    assert at == [0, 30, 90]
    w.engine.node_gone("n")
    assert sum(w.run(10.0) for _ in range(30)) == 0
    assert w.engine.next_s() == float("inf")
