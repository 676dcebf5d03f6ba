"""What each recipe of CONTRIBUTING.md adds, at work. Runs as a process of its own, on a copy of the tree to which the recipes were applied: `working.py NAME FOLDER`."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FREEZE = b'{"metadata": {"name": "f", "namespace": "team-a", "uid": "u"}, "spec": {"reason": "moving to new quotas"}}'


def node(name: str, cpu: int, memory: int) -> Any:
    from cotenant.model.cluster.labels import HOSTNAME, Labels
    from cotenant.model.cluster.node import Node
    from cotenant.model.resources import Amounts

    return Node(name, Amounts.of({"cpu": cpu, "memory": memory}), Labels.of({HOSTNAME: name}))


def pod(name: str, cpu: int, on: str = "", **fields: Any) -> Any:
    from cotenant.model.cluster.observed import ObservedPod
    from cotenant.model.cluster.pod import Pod
    from cotenant.model.resources import Amounts

    value = Pod(name, requests=Amounts.of({"cpu": cpu, "memory": 1 << 30}), **fields)
    return ObservedPod(value, f"uid-{name}", "cotenant", 0.0, node=on)


def cluster(profile_name: str, *nodes: Any) -> Any:
    import numpy as np

    from cotenant.engine.cluster import Cluster
    from cotenant.policy.placement.profiles import profile

    made = Cluster(profile(profile_name), np.random.default_rng(1))
    for each in nodes:
        made.node_seen(each)
    return made


def outcomes(instructions: Any) -> dict[str, str]:
    """The node that each pod is bound to, or its message."""
    from cotenant.engine.framework.instructions import Bind, Unschedulable

    bound = {each.uid: each.node for each in instructions if isinstance(each, Bind)}
    return bound | {each.uid: each.message for each in instructions if isinstance(each, Unschedulable)}


def arrays() -> tuple[Any, Any]:
    """Two nodes, with different shares of memory left, and one shape."""
    from cotenant.engine.encoding.encoder import Encoder

    encoder = Encoder(half_node_cores=2.0)
    for each in (node("a", 8000, 4 << 30), node("b", 4000, 16 << 30)):
        encoder.add_node(each)
    encoder.add_pod(pod("x", 500).pod)
    return encoder.nodes(), encoder.shapes()


def compiled_score() -> None:
    """`score_rows` serves the code."""
    import numpy as np

    from cotenant.policy.placement.compiled import Score, score_rows
    from cotenant.policy.placement.knobs import Knobs

    nodes, shapes = arrays()
    out = np.empty(2)
    score_rows(int(Score.MEMORY_LEFT), nodes, shapes, 0, np.arange(2), 0.0, Knobs().array(), out)
    assert out.tolist() == [0.75, 0.9375], out


def plain_score() -> None:
    """`plain_scores` serves the code, with the same values."""
    import numpy as np

    from cotenant.policy.placement.compiled import Score, plain_scores
    from cotenant.policy.placement.knobs import Knobs

    values = plain_scores(Score.MEMORY_LEFT, *arrays(), 0, np.arange(2), 0.0, Knobs().array())
    assert values.tolist() == [0.75, 0.9375], values


def score() -> None:
    """The engine binds to the node that the score ranks first, which is neither the first row nor the one with most CPU."""
    compiled_score()
    plain_score()
    engine = cluster("memory-left", node("a", 8000, 4 << 30), node("b", 4000, 16 << 30))
    engine.pod_seen(pod("x", 500), 0.0)
    best = engine.why.pod("default/x", 0.0).candidates[0]
    assert [(best.node, part.name, part.value) for part in best.parts] == [("b", "memory left", 0.9375)]
    (bind,) = engine.decide(0.0)
    assert bind.node == "b"
    assert [each.node for each in bind.record.candidates] == ["b", "a"]


def profile() -> None:
    """It is listed, and selectable by the scheduler and in the lab."""
    from cotenant.policy.placement.profiles import PROFILES
    from cotenant.services.scheduler.names import cluster_profile
    from cotenant_lab.scenarios.competitors import competitor

    assert "memory-left" in [each.name for each in PROFILES]
    assert cluster_profile("--profile", "memory-left") == competitor("memory-left").build()
    assert "memory-left" in printed("lab", "policies", "--workload", "founding")


def filter_() -> None:
    """A service avoids the node full of batch, and is refused with the filter's reason where there is no other; batch is not.

    A more important service evicts batch for it.
    """
    from cotenant.engine.framework.instructions import Preempt
    from cotenant.model.cluster.qos import QoSClass

    reason = "node(s) on which batch pods request more than half of the CPU"
    engine = cluster("least-allocated", node("a", 8000, 64 << 30), node("b", 1000, 4 << 30))
    engine.pod_seen(pod("batch", 5000, on="a", qos=QoSClass.BE), 0.0)
    engine.pod_seen(pod("service", 900, qos=QoSClass.LS), 0.0)
    engine.pod_seen(pod("more-batch", 900, qos=QoSClass.BE), 0.0)
    assert outcomes(engine.decide(0.0)) == {"uid-service": "b", "uid-more-batch": "a"}
    engine.pod_seen(pod("late", 900, qos=QoSClass.LS), 1.0)
    said = outcomes(engine.decide(1.0))["uid-late"]
    assert said.startswith(f"0/2 nodes are available: 1 Insufficient cpu, 1 {reason}."), said
    why = engine.why.pod("default/late", 1.0).waiting
    assert (why.passing, [(each.filter, each.nodes) for each in why.rejections]) == (
        0,
        [("NodeResourcesFit", 1), ("BatchShare", 1)],
    )
    engine.pod_gone("uid-batch", 2.0)
    assert outcomes(engine.decide(30.0)) == {"uid-late": "a"}
    engine.validate()
    engine = cluster("least-allocated", node("a", 8000, 64 << 30))
    engine.pod_seen(pod("batch", 5000, on="a", qos=QoSClass.BE), 0.0)
    engine.pod_seen(pod("vip", 900, qos=QoSClass.LS, priority=10), 0.0)
    (made,) = (each for each in engine.decide(0.0) if isinstance(each, Preempt))
    assert (made.node, [each.uid for each in made.victims]) == ("a", ["uid-batch"])


def plugin() -> None:
    """A pod of a frozen namespace waits with the plugin's reason, and is bound when the freeze is gone."""
    engine = cluster("least-allocated", node("a", 8000, 64 << 30))
    freeze = import_module("cotenant.model.groups.freeze").Freeze
    engine.plugins.freezes.seen(freeze("team-a/f", "team-a", "moving to new quotas"), 0.0)
    engine.pod_seen(pod("held", 500, namespace="team-a"), 0.0)
    engine.pod_seen(pod("free", 500), 0.0)
    assert outcomes(engine.decide(0.0)) == {
        "uid-held": "namespace team-a is frozen: moving to new quotas",
        "uid-free": "a",
    }
    engine.plugins.freezes.gone("team-a/f", 1.0)
    assert outcomes(engine.decide(1.0)) == {"uid-held": "a"}
    engine.validate()


def kind() -> None:
    """Its definition is printed, and an object goes from its JSON to the plugin; one that cannot be read is refused."""
    import msgspec
    import pytest
    import yaml

    from cotenant.drivers.kube.kinds.custom.definitions import manifests
    from cotenant.model.errors import InvalidInput
    from cotenant.services.scheduler.custom_kinds import custom_kinds
    from cotenant_local.apiserver.custom.definition import check_definition, default_definition

    definition = yaml.safe_load(dict(manifests())["namespacefreezes"])
    assert definition in yaml.safe_load_all(printed("crds"))
    default_definition(definition)
    assert check_definition(definition, None) == []
    engine = cluster("least-allocated")
    (found,) = (each for each in custom_kinds(engine) if each.kind.name == "NamespaceFreeze")
    assert found.kind.path("team-a") == "/apis/example.com/v1/namespaces/team-a/namespacefreezes"
    handler, held = found.handler(lambda: 5.0), SimpleNamespace(seen=pod("x", 1, namespace="team-a"))
    handler.seen(handler.read(msgspec.json.decode(FREEZE, type=found.kind.form)))
    held_back = next(each for each in engine.plugins.in_order() if each.name == "NamespaceFreeze").pre_enqueue
    assert held_back(held) == "namespace team-a is frozen: moving to new quotas"
    handler.gone("team-a/f")
    assert held_back(held) == ""
    with pytest.raises(InvalidInput, match=r"spec\.reason"):
        handler.read(msgspec.json.decode(b'{"metadata": {"name": "f", "namespace": "n"}}', type=found.kind.form))


def collector(folder: Path) -> None:
    """The figure is in a sample of the agent's collectors; without its file it is a gap."""
    from tests.fakes.node.cgroup_trees import CgroupTrees

    from cotenant.drivers.cgroup.counters import CgroupReader
    from cotenant.drivers.cgroup.sensor import Collector, NodeSensor
    from cotenant.drivers.proc.host import HostReader
    from cotenant.services.agent.collectors import collectors

    reader = import_module("cotenant.drivers.proc.open_files").OpenFiles
    trees, proc = CgroupTrees(folder / "cg", "v2"), folder / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  1 0 1 5\ncpu0 1 0 1 5\n")
    (proc / "meminfo").write_text("MemTotal: 5 kB\nMemAvailable: 2 kB\n")

    def sample(*each: Any) -> Any:
        sensor = NodeSensor(CgroupReader(trees.layout), HostReader(str(proc)), lambda: 7, lambda: 1.5, collectors=each)
        return sensor.sample(())

    (found,) = (each for each in collectors(AsyncExitStack()) if each.what == "open files")
    assert sample(found).open_files is not None or not reader().path.exists()
    written = reader(folder / "file-nr")
    assert "open files" in {gap.what for gap in sample(Collector("open files", written.collect)).gaps}
    written.path.write_text("2144\t0\t9223372036854775807\n")
    assert sample(Collector("open files", written.collect)).open_files == 2144


def node_policy(folder: Path) -> None:
    """Switched on by the configuration, its verdict has the knob, and a reason whose terms add up to the wait beyond what is tolerated."""
    from tests.unit.policy.nodeqos.nodes import in_use
    from tests.unit.policy.nodeqos.nodes import node as machine

    from cotenant.engine.node.instructions import AgentCounts
    from cotenant.engine.node.policies import enabled_policies
    from cotenant.engine.node.policy_runner import PolicyRunner
    from cotenant.model.cluster.qos import QoSClass
    from cotenant.model.machine.knob import Knob, Target
    from cotenant.services.agent.configuration.config import read_config

    (folder / "agent.yaml").write_text("node: n\npolicies: {waiting_services: {tolerated_ppm: 50000}}\n")
    chosen = enabled_policies(read_config(folder / "agent.yaml").policies)
    runner = PolicyRunner(chosen, 1_000_000, 30_000_000, AgentCounts())
    waits = in_use("web", 100, signals={"run_delay_ppm": 80_000})
    runner.run(machine([waits, in_use("batch", 100, QoSClass.BE)]), 0)
    verdict = dict(runner.verdicts())["waiting-services"]
    assert [(each.target, each.value) for each in verdict.knobs] == [(Target("pods/batch", Knob.CPU_WEIGHT), "1")]
    assert sum(term.value for term in verdict.reasons[0].terms) == 30_000
    assert verdict.reasons[0].text == "a service waits 8.0 % of the time, 5.0 % tolerated"
    runner.run(machine([in_use("batch", 100, QoSClass.BE)], at_s=1.0), 1_000_000)
    assert dict(runner.verdicts())["waiting-services"].knobs == ()
    assert "numpy" not in sys.modules


def metric() -> None:
    """It is listed by the command, at its place, and computed for the co-located world."""
    from dataclasses import fields
    from unittest.mock import MagicMock

    import numpy as np

    from cotenant_lab.contract import Measures
    from cotenant_lab.metrics import METRICS
    from cotenant_lab.scenarios.colocation import _measures

    assert [each.name for each in METRICS] == [each.name for each in fields(Measures)]
    assert "The longest seconds from ready to first start" in " ".join(printed("lab", "metrics").split())

    class Account:
        slowdown = np.array([1.0])
        wait_s = np.array([7.0, 3.0])

        def __getattr__(self, name: str) -> float:
            return 0.0

    bridge = MagicMock()  # times of decisions: none of them matters here
    assert _measures(Account(), bridge, 0.0).wait_longest_s == 7.0  # type: ignore[arg-type]


def trace(folder: Path) -> None:
    """A file of two lines is imported: the good one is kept, the bad one counted by its fault; the listing and the help name the format."""
    import polars as pl

    (folder / "nightly.csv").write_text("backup,60,2.5\nreport,120,-1\n")
    said = printed("lab", "import", "nightly", str(folder / "nightly.csv"), str(folder / "out.parquet"))
    assert "2 rows read, 1 kept" in said, said
    assert "1 x negative in cpu_cores (line 2" in said, said
    assert pl.read_parquet(folder / "out.parquet").rows() == [("backup", 60, 2.5)]
    assert "nightly jobs of one cluster" in printed("lab", "formats")
    assert "nightly" in printed("lab", "import", "--help")


def printed(*words: str) -> str:
    """What the command prints; it must succeed."""
    from cotenant.cli.main import main

    out = StringIO()
    with redirect_stdout(out):
        try:
            code: object = main(words)
        except SystemExit as ended:
            code = ended.code
    assert not code, (words, code, out.getvalue())
    return out.getvalue()


if __name__ == "__main__":
    name, place = sys.argv[1], Path(sys.argv[2])
    check = globals()[name]
    check(place) if check.__code__.co_argcount else check()
