"""Random pods, nodes and claims in which placement rules meet: few names, so that terms, ports, zones and volumes
collide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from cotenant.model.cluster.affinity import (
    NodeAffinity,
    NodeInclusionPolicy,
    NodeSelector,
    NodeSelectorTerm,
    PodTerm,
    PreferredTerm,
    SpreadConstraint,
    WhenUnsatisfiable,
)
from cotenant.model.cluster.labels import (
    HOSTNAME,
    NO_LABELS,
    ZONE,
    Labels,
    LabelSelector,
    Requirement,
    SelectorOperator,
)
from cotenant.model.cluster.node import Node
from cotenant.model.cluster.observed import ClaimBinding, VolumeNeed, VolumeOption
from cotenant.model.cluster.pod import HostPort, Pod
from cotenant.model.cluster.taints import Match, Taint, TaintEffect, Toleration
from cotenant.model.resources import Amounts

T = TypeVar("T")
Rng = np.random.Generator

SELECTORS = (
    LabelSelector(),
    LabelSelector.of({"app": "x"}),
    LabelSelector.of({"app": "y"}),
    LabelSelector((Requirement("app", SelectorOperator.NOT_IN, ("x",)),)),
    None,
)
TEAMS = (NO_LABELS, Labels.of({"team": "red"}), Labels.of({"team": "blue"}))
SSD = NodeSelectorTerm((Requirement("disk", SelectorOperator.IN, ("ssd",)),))
IN_AB = NodeSelectorTerm((Requirement(ZONE, SelectorOperator.IN, ("a", "b")),))
PLACES = (
    None,
    NodeSelector((NodeSelectorTerm((Requirement(ZONE, SelectorOperator.IN, ("a",)),)),)),
    NodeSelector((NodeSelectorTerm((Requirement(ZONE, SelectorOperator.NOT_IN, ("a",)),)),)),
    NodeSelector((NodeSelectorTerm((Requirement(HOSTNAME, SelectorOperator.IN, ("n0", "n2")),)),)),
    NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.IN, ("n1",)),)),)),
)


def pick(rng: Rng, items: Sequence[T]) -> T:
    return items[int(rng.integers(len(items)))]


def some(rng: Rng, chance: float) -> bool:
    return bool(rng.random() < chance)


def a_node(rng: Rng, i: int, cpu: int = 1000) -> Node:
    labels = {HOSTNAME: f"n{i}"}
    if some(rng, 0.85):
        labels[ZONE] = pick(rng, ["a", "b", "c"])
    if some(rng, 0.5):
        labels["disk"] = "ssd"
    taints = []
    if some(rng, 0.15):
        taints.append(Taint("t"))
    if some(rng, 0.25):
        taints.append(Taint("soft", pick(rng, ["", "v"]), TaintEffect.PREFER_NO_SCHEDULE))
    return Node(f"n{i}", Amounts.of({"cpu": cpu, "memory": 1000}), Labels.of(labels), tuple(taints))


def a_term(rng: Rng, weight: int | None) -> PodTerm:
    return PodTerm(
        pick(rng, [HOSTNAME, ZONE, ZONE]),
        pick(rng, SELECTORS),
        pick(rng, [(), (), ("ns0",), ("ns0", "ns1")]),
        weight,
        pick(rng, [None, None, None, LabelSelector(), LabelSelector.of({"team": "red"})]),
    )


def a_constraint(rng: Rng, when: WhenUnsatisfiable) -> SpreadConstraint:
    return SpreadConstraint(
        pick(rng, [HOSTNAME, ZONE, ZONE]),
        pick(rng, SELECTORS),
        int(rng.integers(1, 3)),
        when,
        int(rng.integers(1, 4)),
        pick(rng, list(NodeInclusionPolicy)),
        pick(rng, list(NodeInclusionPolicy)),
    )


def a_pod(rng: Rng, name: str, rules: float = 0.2, requests: Amounts | None = None) -> Pod:
    """A pod that has each kind of rule with this chance."""

    def terms(weight: int | None) -> tuple[PodTerm, ...]:
        return tuple(a_term(rng, weight) for _ in range(int(rng.integers(1, 3)))) if some(rng, rules) else ()

    spread = [a_constraint(rng, when) for when in WhenUnsatisfiable for _ in range(2) if some(rng, rules / 1.5)]
    affinity: NodeAffinity | None = None
    if some(rng, rules):
        preferred = (PreferredTerm(10, SSD), PreferredTerm(3, IN_AB))
        pinned = NodeSelector((NodeSelectorTerm((), (Requirement("metadata.name", SelectorOperator.IN, ("n1",)),)),))
        affinity = pick(
            rng, [NodeAffinity(preferred=preferred), NodeAffinity(NodeSelector((SSD,))), NodeAffinity(pinned)]
        )
    ports = [
        HostPort(pick(rng, [80, 443]), pick(rng, ["TCP", "UDP"]), pick(rng, ["", "10.0.0.1", "10.0.0.2"]))
        for _ in range(2)
        if some(rng, rules)
    ]
    return Pod(
        name,
        pick(rng, ["ns0", "ns0", "ns1"]),
        requests or Amounts(),
        labels=Labels.of({"app": pick(rng, ["x", "y"])}),
        node_selector=Labels.of({"disk": "ssd"}) if some(rng, rules / 2) else NO_LABELS,
        node_affinity=affinity,
        tolerations=(Toleration(pick(rng, ["t", "soft"]), Match.EXISTS),) if some(rng, 0.4) else (),
        affinity=terms(None) + terms(int(rng.integers(1, 101))),
        anti_affinity=(terms(None) if some(rng, 0.6) else ()) + terms(int(rng.integers(1, 101))),
        spread=tuple(spread),
        host_ports=tuple(ports),
    )


def claims(rng: Rng) -> tuple[VolumeNeed, ...]:
    """What a pod's claims need; one claim has one binding, whoever asks for it."""
    found = []
    for claim in ("a", "b", "c"):
        if not some(rng, 0.6):
            continue
        binding = pick(rng, [ClaimBinding.STATIC, ClaimBinding.STATIC, ClaimBinding.BOUND, ClaimBinding.PROVISIONED])
        names = ["v1", "v2", "v3"] if binding is ClaimBinding.STATIC else [""]
        chosen = [str(v) for v in rng.permutation(names)[: int(rng.integers(1, 4))]]
        options = tuple(VolumeOption(volume, pick(rng, PLACES)) for volume in chosen)
        waits = "waits" if some(rng, 0.05) else ""
        found.append(VolumeNeed(f"ns0/{binding.value}-{claim}", binding, options, some(rng, 0.2), waits))
    return tuple(found)
