"""Every sentence of help is carried out: with the change that it names, an engine built anew places the pod, and
the whole gang where it speaks of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fakes.cluster.help_worlds import Run, Stored, a_world
from tests.property.few import examples

from cotenant.engine.framework.pod_state import SchedulingState
from cotenant.model.cluster.affinity import NodeAffinity, NodeSelector, NodeSelectorTerm
from cotenant.model.cluster.labels import HOSTNAME, ZONE, Labels, Requirement, SelectorOperator
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ObservedPod
from cotenant.model.cluster.pod import Pod
from cotenant.model.cluster.taints import Match, Toleration
from cotenant.model.decisions.answers import Help, PodAnswer, WhatIf
from cotenant.model.resources import Amounts, parse_amount

UNLESS = ", unless a pod before it in the queue takes the room"
SETTLE_S = 15.0


# ---- a sentence, carried out by what it says


def fitting(text: str) -> list[str]:
    """The nodes of `n1 fits` and `3 nodes fit (n1, n2, n3)`."""
    if one := re.match(r"(\S+) fits", text):
        return [one[1]]
    some = re.match(r"\d+ nodes fit \(([^)]*)\)", text)
    assert some is not None, text
    return [name for name in some[1].split(", ") if name != "..."]


def requirement(text: str) -> Requirement:
    if found := re.fullmatch(r"(\S+) in \((.*)\)", text):
        return Requirement(found[1], SelectorOperator.IN, tuple(found[2].split(", ")))
    if found := re.fullmatch(r"(\S+) \(any value\)", text):
        return Requirement(found[1], SelectorOperator.EXISTS)
    if found := re.fullmatch(r"(\S+) above (\d+)", text):
        return Requirement(found[1], SelectorOperator.GT, (found[2],))
    if found := re.fullmatch(r"no (\S+)", text):
        return Requirement(found[1], SelectorOperator.DOES_NOT_EXIST)
    if found := re.fullmatch(r"(\S+) not in \((.*)\)", text):
        return Requirement(found[1], SelectorOperator.NOT_IN, tuple(found[2].split(", ")))
    key, equals, value = text.partition("=")
    assert equals, text
    return Requirement(key, SelectorOperator.IN, (value,))


def labelled(text: str) -> Callable[[Node], Node]:
    """`label a=b and c in (d, e) and remove the label f`."""
    added, _, removed = text.partition("remove the label")
    requirements = [
        requirement(name) for name in added.removeprefix("label ").removesuffix(" and ").split(" and ") if name
    ]
    gone = removed.removeprefix("s").strip().split(" and ") if removed else []

    def change(node: Node) -> Node:
        labels = {key: value for key, value in node.labels.items if key not in gone}
        for requirement in requirements:
            assert requirement.key not in (HOSTNAME, ZONE)
            above = str(int(requirement.values[0]) + 1) if requirement.operator is SelectorOperator.GT else ""
            labels[requirement.key] = above or (requirement.values[0] if requirement.values else "anything")
        return replace(node, labels=Labels.of(labels))

    return change


def dropped(text: str) -> Callable[[Pod], Pod]:
    gone = [requirement(name) for name in text.split(" and ")]
    keys = {entry.key for entry in gone}

    def change(pod: Pod) -> Pod:
        selector = Labels.of(pair for pair in pod.node_selector if pair[0] not in keys)
        affinity = pod.node_affinity
        if affinity is not None and affinity.required is not None:
            terms = [tuple(e for e in term.expressions if e.key not in keys) for term in affinity.required.terms]
            required = NodeSelector(tuple(map(NodeSelectorTerm, terms))) if all(terms) else None
            affinity = NodeAffinity(required, affinity.preferred)
        return replace(pod, node_selector=selector, node_affinity=affinity)

    return change


def tolerant(text: str) -> Callable[[Pod], Pod]:
    taints = [Toleration(key, Match.EQUAL, value) for key, value in re.findall(r"\{([^:]+): ([^}]*)\}", text)]
    return lambda pod: replace(pod, tolerations=(*pod.tolerations, *taints))


def asking(text: str) -> Callable[[Pod], Pod]:
    less = {}
    for name in text.removeprefix("ask for ").split(" and "):
        found = re.match(r"(\S+) (\S+) instead of (\S+)", name)
        assert found is not None, text
        less[found[2]] = parse_amount(found[2], found[1])
        assert less[found[2]] < parse_amount(found[2], found[3])

    def change(pod: Pod) -> Pod:
        return replace(
            pod, requests=pod.requests.replaced(Amounts.of({k: v for k, v in less.items() if k in pod.requests}))
        )

    return change


def worlds(help_: Help, stored: Stored, gang: list[ObservedPod]) -> list[tuple[Stored, list[str]]]:
    """The worlds in which the sentence is carried out, each with the nodes that the pod may be on; none = any."""
    words = re.sub(r" for each of \d+ pods", "", help_.words.removesuffix(UNLESS))
    verb, _, rest = words.partition(": ")
    if help_.what == "taint":
        verb, rest = re.fullmatch(r"(tolerate the taints? (?:\{[^}]*\}(?:, )?)+): (.*)", words).groups()  # type: ignore[union-attr]
    whole = rest.startswith("gang ")
    on_pod: Callable[[Pod], Pod] | None = None
    on_node: Callable[[Node], Node] | None = None
    at: list[str] = []
    if whole and help_.what in ("node", "label"):
        at = re.findall(r"\bn\d+\b", verb)
        verb = re.sub(r" n\d+(, n\d+)*$", "", verb)
    elif help_.what in ("node", "label"):
        at = fitting(rest)
    if help_.what == "node":
        on_node = (
            (lambda node: replace(node, unschedulable=False))
            if verb == "uncordon"
            else (lambda node: replace(node, ready=True))
        )
    elif help_.what == "label":
        on_node = labelled(verb)
    elif help_.what == "selector":
        on_pod = dropped(verb.removeprefix("drop its requirement "))
    elif help_.what == "taint":
        on_pod = tolerant(verb)
    elif help_.what == "request":
        on_pod = asking(verb)
    elif help_.what == "priority":
        found = re.match(r"priority (\d+) or more", verb)
        assert found is not None
        priority = int(found[1])
        on_pod = lambda pod: replace(pod, priority=priority)  # noqa: E731
    changed = []
    if on_node is not None:
        for names in [at] if whole else [[name] for name in at]:
            world = stored.copy()
            for name in names:
                world.nodes[name] = on_node(world.nodes[name])
            changed.append((world, [] if whole else names))
        return changed
    assert on_pod is not None
    world = stored.copy()
    for observed_pod in gang:
        world.pods[observed_pod.uid] = replace(observed_pod, pod=on_pod(observed_pod.pod))
    may_be_on = [] if whole or help_.what == "priority" or "..." in rest else fitting(rest)
    return [(world, may_be_on)]


# ---- questions about random worlds


def members(run: Run, pod: ObservedPod) -> tuple[list[ObservedPod], int]:
    """The waiting pods that a change applies to, the pod first, and how many of them must be placed."""
    gangs, entry = run.cluster.plugins.gangs, run.cluster.find(pod.pod.key)
    assert entry is not None
    least = gangs.lacks(entry)
    view = gangs.describe(gangs.key_of(pod.uid))
    if view is None or least < 2:
        return [pod], 1
    own = {member.uid for member in view.members}
    return sorted(
        (observed_pod for observed_pod in run.waiting() if observed_pod.uid in own),
        key=lambda observed_pod: observed_pod.uid != pod.uid,
    ), least


def a_run(seed: int) -> Run:
    """The engine of a random world at rest; equal seeds give equal engines."""
    run = Run(a_world(np.random.default_rng(seed)), seed)
    run.settle(SETTLE_S)
    return run


def changed_run(run: Run, seed: int, world: Stored, alone: frozenset[str]) -> Run:
    """An engine with the state of `run` and the objects of `world`; with `alone`, the other waiting pods, but for those
    that hold a node, are behind scheduling gates.

    It is built anew, except where pods hold nodes for their gang: no object says so, and the same engine is made again
    and told of the changes.
    """
    holding = any(
        found.state is SchedulingState.WAITING
        for observed_pod in run.waiting()
        if (found := run.cluster.find(observed_pod.pod.key))
    )
    if not holding:
        for uid, node in run.cluster.reserved().items():
            if uid in world.pods:
                world.pods[uid] = replace(world.pods[uid], nominated_node=node)
        if alone:
            for uid, observed_pod in world.pods.items():
                if not observed_pod.node and uid not in alone:
                    world.pods[uid] = replace(observed_pod, gates=("left out",), nominated_node="")
        return Run(world, seed, run.now_s)
    again = a_run(seed)
    again.bound.clear()
    again.evicted.clear()
    if alone:
        for observed_pod in again.waiting():
            found = again.cluster.find(observed_pod.pod.key)
            if observed_pod.uid not in alone and (found is None or found.state is not SchedulingState.WAITING):
                again.pod_seen(replace(observed_pod, gates=("left out",)))
    for name, changed in world.nodes.items():
        again.node_seen(name, changed)
    for uid, pod in world.pods.items():
        if uid in again.stored.pods and not again.stored.pods[uid].gates:
            again.pod_seen(pod)
    return again


def check(run: Run, pod: ObservedPod, answer: PodAnswer, help_: Help, seed: int) -> None:
    """Carry out one sentence of help."""
    gang, least = members(run, pod)
    own = frozenset(observed_pod.uid for observed_pod in gang)
    tried = worlds(help_, run.stored, gang)
    assert tried, help_.words
    for world, nodes in tried:
        changed = changed_run(run, seed, world, own if help_.words.endswith(UNLESS) else frozenset())
        changed.settle(SETTLE_S)
        where = changed.bound.get(pod.uid, "")
        context = f"{pod.pod.key}: {help_.words}; headline {answer.headline}"
        assert where, context
        assert not nodes or where in nodes, f"{context}; it went to {where}"
        assert len(own & changed.bound.keys()) >= least, context
        too_soon = [
            key for key, (by, bound) in changed.evicted.items() if by in own and len(bound & own) < least
        ]  # members beyond the minimum go alone afterwards, and may preempt as any pod
        assert help_.what == "priority" or not too_soon, context


def check_what_if(run: Run, pod: ObservedPod, cpu: int, seed: int) -> None:
    """The answer for other requests says that nodes would take the pod only where they do."""
    answer = run.cluster.why.pod(pod.pod.key, run.now_s, WhatIf.parse((f"cpu={cpu}m",)))
    assert answer is not None
    gang, _ = members(run, pod)
    world = run.stored.copy()
    for observed_pod in gang:
        if observed_pod.pod.requests == pod.pod.requests:
            size = observed_pod.pod.requests.replaced(Amounts.of({"cpu": cpu}))
            world.pods[observed_pod.uid] = replace(observed_pod, pod=replace(observed_pod.pod, requests=size))
    changed = changed_run(run, seed, world, frozenset())
    changed.settle(SETTLE_S)
    if "it would wait" not in answer.headline:
        assert pod.uid in changed.bound, answer.headline
        assert pod.uid not in {by for by, _ in changed.evicted.values()}, answer.headline
    else:
        assert answer.candidates == ()


def ask_all(seed: int, counts: dict[str, int] | None = None) -> None:
    """Ask about every pod of a random world that waits."""
    run = a_run(seed)
    cpu = np.random.default_rng(seed).choice([100, 1000, 2500], size=100)
    for pod in run.waiting():
        answer = run.cluster.why.pod(pod.pod.key, run.now_s)
        assert answer is not None
        if answer.waiting is None:
            continue  # it holds a node and waits for its gang
        for entry in answer.waiting.helps:
            check(run, pod, answer, entry, seed)
        check_what_if(run, pod, int(cpu[len(pod.uid)]), seed)
        if counts is not None:
            for entry in answer.waiting.helps:
                kind = entry.what + (" gang" if "gang " in entry.words else "")
                kind += " unless" if entry.words.endswith(UNLESS) else ""
                counts[kind] = counts.get(kind, 0) + 1
            counts["waits"] = counts.get("waits", 0) + 1
            counts["no help"] = counts.get("no help", 0) + (not answer.waiting.helps)


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
@example(1166572295)  # a member of the gang holds a node already and is not a pod before it in the queue
@example(86620)  # a pod behind it in the queue is tried before the end of its back-off
@settings(deadline=None, max_examples=examples(12))
def test_every_sentence_of_help_comes_true(seed: int) -> None:
    ask_all(seed)
