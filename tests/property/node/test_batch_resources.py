"""Batch pods over the agent, the keeper and cgroup files of both versions, against a plain model: limits while a pod is
there, the old values after it.

The files refuse what a kernel refuses: on v1 a quota above the parent's or below a child's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fakes.node.cgroup_trees import CgroupTrees, KernelTree
from tests.fakes.node.fake_node import SECOND, FakeNode, FixedPolicy
from tests.property.few import examples
from tests.property.node.test_agent_and_keeper import NoTrail, RealKeeper

from cotenant.drivers.cgroup.knobs import CgroupKnobs
from cotenant.drivers.kubelet.extended import PodInfoAmounts, Role, pod_amounts
from cotenant.engine.node.agent import Agent
from cotenant.engine.node.policies import PolicySettings, enabled_policies
from cotenant.engine.node.settings import AgentSettings
from cotenant.model.cluster.qos import QoSClass
from cotenant.model.machine.knob import Knob, KnobScope, KnobTarget
from cotenant.model.machine.node_pod import NodeContainer, NodePod
from cotenant.services.knobs.dry_run import NoStateFile
from cotenant.services.knobs.executor import Clock, LeaseExecutor
from cotenant.services.knobs.rules import KnobRules

TOP = "kubepods/besteffort"
ONLY = PolicySettings(best_effort_cpu=None, own_cpus=None, burst=None)
KNOBS = (Knob.CPU_WEIGHT, Knob.CPU_MAX, Knob.MEMORY_MAX)
MIB = 1 << 20


class FileKeeper(RealKeeper):
    """The real keeper over cgroup files."""

    def __init__(self, knobs: CgroupKnobs) -> None:
        self.knobs = knobs
        super().__init__()

    def __post_init__(self) -> None:
        clock = Clock(lambda: self.now_us, lambda: 0.0)
        self.executor = LeaseExecutor(
            {KnobScope.CGROUP: self.knobs}, NoStateFile(), NoTrail(), clock, KnobRules((TOP,))
        )


@dataclass(frozen=True)
class Step:
    """One period: the pods with their containers' amounts, the quota of all best-effort work, and whether the agent
    starts again.
    """

    pods: dict[str, tuple[PodInfoAmounts, ...]]
    common_m: int | None
    seconds: int
    restarts: bool


def amounts(extended: bool) -> st.SearchStrategy[PodInfoAmounts]:
    cpu = st.sampled_from([0, 3, 250, 1000, 2500])
    memory = st.sampled_from([0, MIB, 64 * MIB + 5])
    return st.builds(PodInfoAmounts, st.sampled_from(Role), cpu, cpu, memory, st.just(extended), st.just(extended))


PARTS = st.lists(st.one_of(amounts(True), amounts(True), amounts(False)), min_size=1, max_size=3).map(
    lambda parts: tuple(sorted(parts, key=lambda part: part.role is Role.CONTAINER))
)
STEPS = st.lists(
    st.builds(
        Step,
        st.dictionaries(st.sampled_from("abc"), PARTS, max_size=3),
        st.sampled_from([None, None, 100, 1200, 8000]),
        st.sampled_from([1, 1, 12, 45]),
        st.sampled_from([False, False, False, True]),
    ),
    min_size=1,
    max_size=6,
)


def pod_of(name: str, parts: tuple[PodInfoAmounts, ...]) -> NodePod:
    group = f"{TOP}/{name}"
    containers = tuple(
        NodeContainer(
            f"c{at}",
            f"{group}/c{at}",
            "",
            part.cpu_request_m,
            part.cpu_limit_m,
            0,
            part.memory_limit_bytes,
            part.extended_cpu,
            part.extended_memory,
        )
        for at, part in enumerate(parts)
    )
    return NodePod(
        f"uid-{name}", "jobs", name, group, qos=QoSClass.BE, containers=containers, extended=pod_amounts(parts)
    )


def together(parts: tuple[PodInfoAmounts, ...], field: str) -> int:
    """The most of an amount over all moments of a pod's life."""
    moments = [
        [*(before for before in parts[:at] if before.role is Role.SIDECAR), part]
        for at, part in enumerate(parts)
        if part.role is Role.INIT
    ]
    moments.append([part for part in parts if part.role is not Role.INIT])
    return max(sum(getattr(part, field) for part in moment) for moment in moments)


def model(step: Step, *, nested: bool) -> dict[KnobTarget, str]:
    """What should stand, as canonical texts; knobs that are not named have their default."""
    found: dict[KnobTarget, str] = {}
    common = None if step.common_m is None else step.common_m * 100
    if common is not None:
        found[KnobTarget(TOP, Knob.CPU_MAX)] = f"{common} 100000"

    def quota(group: str, limit_m: int, above: int | None) -> int:
        value = max(1000, limit_m * 100)
        if nested and above is not None:
            value = min(value, above)
        found[KnobTarget(group, Knob.CPU_MAX)] = f"{value} 100000"
        return value

    def rest(group: str, request_m: int | None, memory: int) -> None:
        if request_m is not None:
            found[KnobTarget(group, Knob.CPU_WEIGHT)] = str(max(1, (request_m + 5) // 10))
        if memory:
            found[KnobTarget(group, Knob.MEMORY_MAX)] = str(memory // 4096 * 4096)

    for name, parts in step.pods.items():
        group = f"{TOP}/{name}"
        of_pod = common
        if any(part.extended_cpu for part in parts):
            rest(group, together(parts, "cpu_request_m"), 0)
            if all(part.cpu_limit_m and part.extended_cpu for part in parts):
                of_pod = quota(group, together(parts, "cpu_limit_m"), common)
        if all(part.memory_limit_bytes and part.extended_memory for part in parts):
            rest(group, None, together(parts, "memory_limit_bytes"))
        for at, part in enumerate(parts):
            if part.extended_cpu:
                rest(f"{group}/c{at}", part.cpu_request_m, 0)
                if part.cpu_limit_m:
                    quota(f"{group}/c{at}", part.cpu_limit_m, of_pod)
            if part.extended_memory:
                rest(f"{group}/c{at}", None, part.memory_limit_bytes)
    return found


DEFAULTS = {Knob.CPU_WEIGHT: "100", Knob.CPU_MAX: "max 100000", Knob.MEMORY_MAX: "max"}


@contextmanager
def machine(kind: str) -> Iterator[tuple[CgroupTrees, CgroupKnobs]]:
    with tempfile.TemporaryDirectory() as folder:
        trees = CgroupTrees(Path(folder), kind)
        trees.files = {  # of groups below the root: only what these knobs need, so that a group is made fast
            tree: {name: text for name, text in files.items() if name.startswith(("cpu.", "memory.", "cgroup.procs"))}
            for tree, files in trees.files.items()
            if tree in (".", "cpu", "memory")
        }
        trees.add(TOP)
        with CgroupKnobs(trees.layout, KernelTree) as knobs:
            yield trees, knobs


def standing(knobs: CgroupKnobs, groups: list[str]) -> dict[KnobTarget, str]:
    found = {}
    for group in groups:
        for knob in KNOBS:
            value = knobs.read(KnobTarget(group, knob))
            if value != DEFAULTS[knob]:
                found[KnobTarget(group, knob)] = value
    return found


def groups_of(step: Step) -> list[str]:
    return [
        TOP,
        *(g for n, parts in step.pods.items() for g in (f"{TOP}/{n}", *(f"{TOP}/{n}/c{i}" for i in range(len(parts))))),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v1", "v2"])
@given(STEPS)
@settings(max_examples=examples(15), deadline=None)
def test_what_stands_is_what_the_plain_model_says(kind: str, story: list[Step]) -> None:
    with machine(kind) as (trees, knobs):
        common = FixedPolicy("common")
        supported = frozenset(knob for knob in Knob if knob.scope is KnobScope.CGROUP and knobs.supported(knob) is None)

        def new_agent() -> Agent:
            chosen = AgentSettings(roots=(TOP,), policies=ONLY)
            agent = Agent(chosen, "node-1", [*enabled_policies(ONLY), common.entry()])
            agent.machine_seen(supported)
            return agent

        keeper = FileKeeper(knobs)
        node = FakeNode(new_agent(), (), cpus=8, keeper=keeper)
        here: set[str] = set()
        for step in story:
            if step.restarts:
                node.agent = new_agent()
                node.agent.leases_found(keeper.executor.leases(), node.now_us)
            for group in groups_of(step):
                trees.add(group)
            for gone in sorted(here - set(groups_of(step)), reverse=True):
                trees.remove(gone)
            here = set(groups_of(step))
            common.wants = {}
            if step.common_m is not None:
                common.wants = {KnobTarget(TOP, Knob.CPU_MAX): f"{step.common_m * 100} 100000"}
            node.show([pod_of(name, parts) for name, parts in step.pods.items()])
            for _ in range(2):
                keeper.expire(node.now_us)
                node.tick(step.seconds * SECOND)
            # A group that was removed and made again has a lease that ends first.
            node.tick()
            node.tick(31 * SECOND)
            node.tick()
            expected = model(step, nested=kind == "v1")
            if kind == "v1":  # shares are coarser than weights at the lower end
                expected = {t: ("1" if t.knob is Knob.CPU_WEIGHT and v == "0" else v) for t, v in expected.items()}
            assert standing(knobs, groups_of(step)) == {t: v for t, v in expected.items() if v != DEFAULTS[t.knob]}
        common.wants = {}
        node.carry_out(node.agent.stopping(node.now_us))
        keeper.expire(node.now_us + 60 * SECOND)
        assert keeper.executor.leases() == ()
        assert standing(knobs, sorted(here)) == {}
