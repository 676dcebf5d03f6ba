"""What each recipe of docs/recipes adds, at work. Runs as a process of its own, on a copy of the tree to which the
recipes were applied: `working.py NAME FOLDER`.
"""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack, redirect_stdout
from importlib import import_module
from io import StringIO
from pathlib import Path
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
    for node in nodes:
        made.node_seen(node)
    return made


def outcomes(instructions: Any) -> dict[str, str]:
    """The node that each pod is bound to, or its message."""
    from cotenant.engine.framework.instructions import Bind, Unschedulable

    bound = {instruction.uid: instruction.node for instruction in instructions if isinstance(instruction, Bind)}
    return bound | {
        instruction.uid: instruction.message for instruction in instructions if isinstance(instruction, Unschedulable)
    }


def arrays() -> tuple[Any, Any]:
    """Two nodes, with different shares of memory left, and one shape."""
    from cotenant.engine.encoding.encoder import Encoder

    encoder = Encoder(half_node_cores=2.0)
    for entry in (node("a", 8000, 4 << 30), node("b", 4000, 16 << 30)):
        encoder.add_node(entry)
    encoder.add_pod(pod("x", 500).pod)
    return encoder.nodes(), encoder.shapes()


def compiled_score() -> None:
    """`score_rows` serves the code."""
    import numpy as np

    from cotenant.policy.placement.codes import Score
    from cotenant.policy.placement.compiled import score_rows
    from cotenant.policy.placement.knobs import Knobs

    nodes, shapes = arrays()
    out = np.empty(2)
    score_rows(int(Score.MEMORY_LEFT), nodes, shapes, 0, np.arange(2), 0.0, Knobs().array(), out)
    assert out.tolist() == [0.75, 0.9375], out


def plain_score() -> None:
    """`plain_scores` serves the code, with the same values."""
    import numpy as np

    from cotenant.policy.placement.codes import Score
    from cotenant.policy.placement.compiled import plain_scores
    from cotenant.policy.placement.knobs import Knobs

    values = plain_scores(Score.MEMORY_LEFT, *arrays(), 0, np.arange(2), 0.0, Knobs().array())
    assert values.tolist() == [0.75, 0.9375], values


def score() -> None:
    """The engine binds to the node that the score ranks first, which is neither the first row nor the one with most
    CPU.
    """
    compiled_score()
    plain_score()
    engine = cluster("memory-left", node("a", 8000, 4 << 30), node("b", 4000, 16 << 30))
    engine.pod_seen(pod("x", 500), 0.0)
    best = engine.why.pod("default/x", 0.0).candidates[0]
    assert [(best.node, part.name, part.value) for part in best.parts] == [("b", "memory left", 0.9375)]
    (bind,) = engine.decide(0.0)
    assert bind.node == "b"
    assert [candidate.node for candidate in bind.record.candidates] == ["b", "a"]


def profile() -> None:
    """It is listed, and selectable by the scheduler and in the lab."""
    from cotenant.policy.placement.profiles import PROFILES
    from cotenant.services.scheduling.names import cluster_profile
    from cotenant_lab.scenarios.competitors import competitor

    assert "memory-left" in [entry.name for entry in PROFILES]
    assert cluster_profile("--profile", "memory-left") == competitor("memory-left").build()
    assert "memory-left" in printed("lab", "policies", "--workload", "founding")


def filter_() -> None:
    """A service avoids the node full of batch, and is refused with the filter's reason where there is no other; batch
    is not.

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
    assert (why.passing, [(rejection.filter, rejection.nodes) for rejection in why.rejections]) == (
        0,
        [("NodeResourcesFit", 1), ("BatchShare", 1)],
    )
    engine.pod_gone("uid-batch", 2.0)
    assert outcomes(engine.decide(30.0)) == {"uid-late": "a"}
    engine.validate()
    engine = cluster("least-allocated", node("a", 8000, 64 << 30))
    engine.pod_seen(pod("batch", 5000, on="a", qos=QoSClass.BE), 0.0)
    engine.pod_seen(pod("vip", 900, qos=QoSClass.LS, priority=10), 0.0)
    (made,) = (entry for entry in engine.decide(0.0) if isinstance(entry, Preempt))
    assert (made.node, [victim.uid for victim in made.victims]) == ("a", ["uid-batch"])


def profile_knob() -> None:
    """Both forms of the score subtract it, `--set` turns it, and a search has its range."""
    import numpy as np

    from cotenant.policy.placement.compiled import Score, plain_scores, score_rows
    from cotenant.policy.placement.knobs import Knobs
    from cotenant_lab.scenarios.competitors import competitor
    from cotenant_lab.tuning.spaces import space_of

    nodes, shapes = arrays()
    nodes.requested[0, 2] = 3  # pods
    found = {}
    for weight in (0.0, 0.5):
        knobs, out = Knobs(crowd_weight=weight).array(), np.empty(2)  # type: ignore[call-arg]
        score_rows(int(Score.PARAGON_LIKE), nodes, shapes, 0, np.arange(2), 0.0, knobs, out)
        plain = plain_scores(Score.PARAGON_LIKE, nodes, shapes, 0, np.arange(2), 0.0, knobs)
        assert np.allclose(out, plain), (out, plain)
        found[weight] = out
    assert np.allclose(found[0.0] - found[0.5], (1.5, 0.0)), found
    assert competitor("edf-paragon").build((("crowd_weight", 0.1),)).knobs.crowd_weight == 0.1
    assert space_of("edf-paragon", ())["crowd_weight"] == (0.0, 0.5)


def kind() -> None:
    """Its definition is printed and accepted by the local API server; an object is read, one without a reason
    refused.
    """
    import msgspec
    import pytest
    import yaml

    from cotenant.drivers.kube.kinds.custom.definitions import manifests
    from cotenant.model.errors import InvalidInput
    from cotenant_local.apiserver.custom.definition import check_definition, default_definition

    definition = yaml.safe_load(dict(manifests())["namespacefreezes"])
    assert definition in yaml.safe_load_all(printed("crds"))
    default_definition(definition)
    assert check_definition(definition, None) == []
    module = import_module("cotenant.drivers.kube.kinds.custom.namespace_freeze")
    found = module.NAMESPACE_FREEZES
    assert found.path("team-a") == "/apis/example.com/v1/namespaces/team-a/namespacefreezes"
    read = module.read_freeze(msgspec.json.decode(FREEZE, type=found.form))
    assert read == ("team-a", "moving to new quotas")
    with pytest.raises(InvalidInput, match=r"spec\.reason"):
        module.read_freeze(msgspec.json.decode(b'{"metadata": {"name": "f", "namespace": "n"}}', type=found.form))


def knob(folder: Path) -> None:
    """It is written, read back and restored on cgroup v2, is a gap on v1, and of two values the smaller wins."""
    from tests.fakes.node.cgroup_trees import CgroupTrees

    from cotenant.drivers.cgroup.knobs import CgroupKnobs
    from cotenant.engine.node.knobs.restrictiveness import restrictiveness
    from cotenant.model.machine.knob import Knob, KnobTarget
    from cotenant.model.machine.knob_values import is_default
    from cotenant.services.knobs.border import exceeds

    swap = Knob("memory.swap.max")
    ranks = [restrictiveness(swap, value) for value in ("1048576", "2097152", "max")]
    assert all(rank is not None for rank in ranks), ranks
    assert ranks == sorted(ranks)  # type: ignore[type-var]
    assert is_default(swap, "max")
    assert exceeds(swap, "max", "1048576")
    assert not exceeds(swap, "1048576", "max")
    trees = CgroupTrees(folder / "v2", "v2")
    trees.add("batch")
    for path in folder.rglob("memory.max"):
        (path.parent / "memory.swap.max").write_text("max\n")
    with CgroupKnobs(trees.layout) as knobs:
        target = KnobTarget("batch", swap)
        assert knobs.supported(swap) is None, knobs.supported(swap)
        raw = knobs.raw(target)
        knobs.write(target, "1048576")
        assert knobs.read(target) == "1048576"
        knobs.restore(target, raw)
        assert knobs.read(target) == "max"
    old = CgroupTrees(folder / "v1", "v1")
    old.add("batch")
    with CgroupKnobs(old.layout) as knobs:
        gap = knobs.supported(swap)
        assert gap is not None
        assert "swap accounting" in gap.needs


def command() -> None:
    """It answers, refuses what is no list in one line with status 2, and is in the help."""
    assert printed("cpus", "0-3,8") == "5\n"
    assert printed("cpus", "0-3,8", "--json") == '{"cpus": 5}\n'
    assert "how many CPUs a list names" in " ".join(printed("--help").split())
    from contextlib import redirect_stderr

    from cotenant.cli.main import main

    said = StringIO()
    with redirect_stderr(said):
        assert main(("cpus", "x")) == 2
    assert said.getvalue().count("\n") == 1
    assert "LIST" in said.getvalue()


def workload(folder: Path) -> None:
    """It is listed, compared, and equal seeds give equal figures; an unknown policy is refused."""
    import json

    import pytest

    assert "two-sizes" in printed("lab", "workloads")
    words = ("lab", "compare", "--workload", "two-sizes", "--seeds", "2", "--jobs", "1", "--json")
    first = json.loads(printed(*words, "--out", str(folder / "one")))
    again = json.loads(printed(*words, "--out", str(folder / "two")))
    figures = [
        {row["policy"]: (row["success"], row["utilisation"]) for row in found["rows"]} for found in (first, again)
    ]
    assert figures[0] == figures[1]
    assert set(figures[0]) == {"large-first", "as-they-come"}
    assert figures[0]["large-first"] != figures[0]["as-they-come"]
    from cotenant.model.errors import InvalidInput
    from cotenant_lab.contract import RunSpec
    from cotenant_lab.registry import scenario

    with pytest.raises(InvalidInput, match="large-first"):
        scenario("two-sizes").check(RunSpec("two-sizes", "other", 0, 1.0))


def lab_policy() -> None:
    """It is listed, and places on the last node that fits, services first."""
    import numpy as np
    from tests.unit.baselines.conftest import _make

    from cotenant_lab.scenarios.competitors import competitor

    assert "last-node" in printed("lab", "policies", "--workload", "founding")
    snapshot = _make([(10, 100), (10, 100)], [(6, 10), (1, 10)], [0, 0, 0, 1])
    decided = competitor("last-node").build().decide(snapshot, 0.0, np.random.default_rng(1))
    assert decided.row.tolist() == [1, 0, -1, 1], decided
    assert sum(decided.reasons.values()) == 1


def console_view() -> None:
    """Its name is a view, and every text that the sources ask for is there in two languages; the compiler agrees
    where it is installed.
    """
    import json
    import re
    import subprocess

    console = next(Path(part).parents[2] / "console" for part in sys.path if Path(part).name == "src")  # of the copy
    sources = {path: path.read_text() for path in (console / "src").rglob("*.ts*")}
    texts = json.loads((console / "src" / "words.json").read_text())
    view = sources[console / "src" / "origin.tsx"]
    assert "origin" in texts
    asked = set(re.findall(r'"(origin[\w.]*)"', view))
    assert asked == {"origin", "origin.ok", "origin.away"}
    for key in asked:
        assert key in texts, key
        english, chinese = texts[key]
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), key
    route = sources[console / "src" / "route.ts"]
    views = re.search(r"VIEWS: readonly View\[\] = \[(.*?)\]", route, re.DOTALL)
    assert views is not None
    assert '"origin"' in views[1]
    assert "<Origin />" in sources[console / "src" / "app.tsx"]
    installed = Path(__file__).parents[3] / "console" / "node_modules"
    if installed.is_dir():
        (console / "node_modules").symlink_to(installed)
        done = subprocess.run(["npm", "run", "check"], cwd=console, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout


def collector(folder: Path) -> None:
    """The figure is in a sample of the agent's collectors; without its file it is a gap."""
    from tests.fakes.node.cgroup_trees import CgroupTrees

    from cotenant.drivers.cgroup.counters import CgroupReader
    from cotenant.drivers.cgroup.sensor import NodeSensor, SampleCollector
    from cotenant.drivers.proc.host import HostReader
    from cotenant.services.agent.collectors import collectors

    reader = import_module("cotenant.drivers.proc.open_files").OpenFiles
    trees, proc = CgroupTrees(folder / "cg", "v2"), folder / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  1 0 1 5\ncpu0 1 0 1 5\n")
    (proc / "meminfo").write_text("MemTotal: 5 kB\nMemAvailable: 2 kB\n")

    def sample(*element: Any) -> Any:
        sensor = NodeSensor(
            CgroupReader(trees.layout), HostReader(str(proc)), lambda: 7, lambda: 1.5, collectors=element
        )
        return sensor.sample(())

    (found,) = (entry for entry in collectors(AsyncExitStack()) if entry.what == "open files")
    assert sample(found).open_files is not None or not reader().path.exists()
    written = reader(folder / "file-nr")
    assert "open files" in {gap.what for gap in sample(SampleCollector("open files", written.collect)).gaps}
    written.path.write_text("2144\t0\t9223372036854775807\n")
    assert sample(SampleCollector("open files", written.collect)).open_files == 2144


def node_policy(folder: Path) -> None:
    """Switched on by the configuration, its verdict has the knob, and a reason whose terms add up to the wait
    beyond what is tolerated.
    """
    from tests.unit.policy.nodeqos.nodes import in_use
    from tests.unit.policy.nodeqos.nodes import node as machine

    from cotenant.engine.node.instructions import AgentCounts
    from cotenant.engine.node.policies import enabled_policies
    from cotenant.engine.node.policy_runner import PolicyRunner
    from cotenant.model.cluster.qos import QoSClass
    from cotenant.model.machine.knob import Knob, KnobTarget
    from cotenant.services.agent_settings.config import read_config

    (folder / "agent.yaml").write_text("node: n\npolicies: {waiting_services: {tolerated_ppm: 50000}}\n")
    chosen = enabled_policies(read_config(folder / "agent.yaml").policies)
    runner = PolicyRunner(chosen, 1_000_000, 30_000_000, AgentCounts())
    waits = in_use("web", 100, signals={"run_delay_ppm": 80_000})
    runner.run(machine([waits, in_use("batch", 100, QoSClass.BE)]), 0)
    verdict = dict(runner.verdicts())["waiting-services"]
    assert [(knob.target, knob.value) for knob in verdict.knobs] == [(KnobTarget("pods/batch", Knob.CPU_WEIGHT), "1")]
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

    assert [entry.name for entry in METRICS] == [field.name for field in fields(Measures)]
    assert "The longest seconds from ready to first start" in " ".join(printed("lab", "metrics").split())

    class Account:
        slowdown = np.array([1.0])
        wait_s = np.array([7.0, 3.0])

        def __getattr__(self, name: str) -> float:
            return 0.0

    bridge = MagicMock()  # times of decisions: none of them matters here
    assert _measures(Account(), bridge, 0.0).wait_longest_s == 7.0  # type: ignore[arg-type]


def trace(folder: Path) -> None:
    """A file of two lines is imported: the good one is kept, the bad one counted by its fault; the listing and the
    help name the format.
    """
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
