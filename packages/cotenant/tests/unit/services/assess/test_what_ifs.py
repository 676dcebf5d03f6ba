"""What-ifs on clusters whose answers can be counted by hand; the engine is the real one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from tests.fakes.cluster.assessed import budget, node, node_metric, pod, replica_set, snapshot

from cotenant.drivers.kube.snapshot.snapshot import ClusterSnapshot
from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.meters import CardUses, Energy, Meters
from cotenant.model.assess.what_if import WhatIfs
from cotenant.model.errors import InvalidInput
from cotenant.services.assess.what_ifs.altering import NO_CONTROLLER, altered
from cotenant.services.assess.what_ifs.comparing import compared
from cotenant.services.assess.what_ifs.moved import NOT_KNOWN
from cotenant.services.assess.what_ifs.outcomes import CaseInputs, as_it_is, outcome
from cotenant.services.assess.what_ifs.writing import read_what_ifs
from cotenant.services.assess.whole_report import assess
from cotenant.services.assess.words import what_if_rows

ZONE, TYPE = "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"


def in_zone(name: str, zone: str, cpu: str = "8") -> Any:
    return node(name, cpu, **{ZONE: zone, TYPE: "m5"})


def three_nodes(pods: int = 9, cpu: str = "2") -> list[Any]:
    """Nodes a and b in zone x, c in y; pods p0, p1, ... on a, b, c in turn."""
    nodes = [in_zone("a", "x"), in_zone("b", "x"), in_zone("c", "y")]
    return [*nodes, *(pod(f"p{i}", "abc"[i % 3], cpu, "1Gi") for i in range(pods)), replica_set(pods)]


def ask(
    objects: Iterable[Any], *texts: str, seeds: Sequence[int] = (0,), history: ClusterHistory | None = None
) -> WhatIfs:
    return compared(CaseInputs(snapshot(objects), history, 0.01, None), read_what_ifs(texts), seeds, lambda words: None)


def value(found: WhatIfs, title: str, case: int = 0) -> float | None:
    return next(row.cases[case].value for row in found.rows if row.title == title)


def day_of_use(given: ClusterSnapshot, **cpu_m: int) -> ClusterHistory:
    """Two days in steps of an hour: each pod uses so much, and its node 100 more than its pods."""
    where = {
        obj["metadata"]["name"]: obj["spec"].get("nodeName", "")
        for obj in map(msgspec.json.decode, given.objects["v1/pods"])
    }
    rows = np.repeat(np.array([[cpu_m[name]] for name in cpu_m], np.float32), 48, axis=1)
    of_pods = AssessedHistory(0.0, 3600.0, tuple(f"shop/{name}" for name in cpu_m), rows, rows / 4, "made up")
    nodes = sorted({where[name] for name in cpu_m})
    total = {name: 100 + sum(used for of, used in cpu_m.items() if where[of] == name) for name in nodes}
    whole = np.repeat(np.array([[total[name]] for name in nodes], np.float32), 48, axis=1)
    asked = np.full(len(cpu_m), 2000.0, np.float32)
    return ClusterHistory(
        PodHistory(
            of_pods, tuple(where[name] for name in cpu_m), ("shop/Deployment/web",) * len(cpu_m), asked, asked.copy()
        ),
        AssessedHistory(0.0, 3600.0, tuple(nodes), whole, whole / 4, "made up"),
    )


@pytest.mark.parametrize("text", ["load=1.0", "add=3:m5 remove=3:m5", "overcommit=off", "size=shop/web:cpu=2"])
def test_what_changes_nothing_gives_the_plain_report(text: str) -> None:
    objects = [*three_nodes(), node_metric("a", {"p0": 500}, 900)]
    found = ask(objects, text, seeds=(0, 1, 2))
    plain = {figure.title: figure for figure in assess(snapshot(objects), None, 0.01).figures}
    compared_with_the_report = 0
    for row in found.rows:
        if row.title in plain:
            compared_with_the_report += 1
            assert row.base.value == row.cases[0].value == plain[row.title].value
        if row.base.value is not None:
            assert (row.differences[0].value, row.differences[0].low, row.differences[0].high) == (0, 0, 0)
    assert compared_with_the_report >= 8
    assert found.cases[0].unplaced == ()
    assert not altered(snapshot(objects), read_what_ifs([text])[0], 7).is_changed


def test_a_lost_zone_leaves_what_fits_in_the_other() -> None:
    found = ask(three_nodes(), "zone-lost=x", "zone-lost=x add=1:m5")
    assert [value(found, "Nodes", case) for case in (0, 1)] == [1, 2]
    assert [value(found, "Running pods", case) for case in (0, 1)] == [4, 8]  # four of two cores on eight
    assert [value(found, "Pods without a place", case) for case in (0, 1)] == [5, 1]
    (missing,) = found.cases[0].unplaced
    assert (missing.pods, missing.why) == (5, "Insufficient cpu")
    between = next(row.between for row in found.rows if row.title == "Running pods")
    assert between is not None
    assert between.value == 4


def test_pods_of_a_lost_zone_keep_to_their_rules() -> None:
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    alone = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    nodes = [in_zone("a", "x"), in_zone("b", "y"), in_zone("c", "y")]
    objects = [*nodes, *(pod(name, on, affinity=alone) for name, on in (("p", "a"), ("q", "b"))), replica_set(2)]
    assert value(ask(objects, "zone-lost=x"), "Pods without a place") == 0
    more = [*objects, pod("r", "c", affinity=alone)]
    (missing,) = ask(more, "zone-lost=x").cases[0].unplaced
    assert missing.example == "shop/p"
    assert "anti-affinity" in missing.why
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2}
    spread["labelSelector"] = {"matchLabels": {"app": "web"}}
    two = [pod(name, on, topologySpreadConstraints=[spread]) for name, on in (("p", "a"), ("q", "b"))]
    (missing,) = ask([*nodes, *two, replica_set(2)], "zone-lost=x").cases[0].unplaced
    assert "topology spread" in missing.why


def test_budgets_that_a_loss_breaks_are_counted() -> None:
    for allowed, broken in ((4, 1), (5, 0)):
        found = ask([*three_nodes(), budget(allowed)], "zone-lost=x")
        assert value(found, "Disruption budgets broken") == broken


def test_pods_without_a_controller_are_not_made_again_and_daemons_go_with_their_node() -> None:
    bare, daemon = pod("bare", "a"), pod("daemon", "a")
    del bare["metadata"]["ownerReferences"]
    daemon["metadata"]["ownerReferences"][0] |= {"kind": "DaemonSet", "name": "d", "uid": "ds"}
    objects = [in_zone("a", "x"), in_zone("b", "y"), bare, daemon]
    found = ask(objects, "zone-lost=x")
    assert [(one.why, one.pods) for one in found.cases[0].unplaced] == [(NO_CONTROLLER, 1)]
    assert value(found, "Running pods") == 0
    assert value(ask(objects, "add=2:m5"), "Running pods") == 3  # one like a, with its daemon, and one like b


def test_load_copies_pods_and_their_use() -> None:
    given = snapshot(three_nodes(6))
    use = day_of_use(given, **{f"p{i}": 1000 for i in range(6)})
    found = compared(CaseInputs(given, use, 0.01, None), read_what_ifs(["load=1.5"]), (0, 1), lambda words: None)
    assert value(found, "Running pods") == 9
    assert value(found, "Cores, used, p99 of the day") == pytest.approx(9 * 1.0 + 3 * 0.1)
    half = compared(CaseInputs(given, use, 0.01, None), read_what_ifs(["load=0.5"]), (0, 1), lambda words: None)
    assert value(half, "Running pods") == 3
    assert value(half, "Cores, used, p99 of the day") == pytest.approx(3 * 1.0 + 3 * 0.1)
    assert value(half, "Pods without a place") == 0


def test_energy_of_pods_goes_with_them_and_that_of_nodes_is_not_known() -> None:
    given = snapshot(three_nodes(6))
    energy = Energy(tuple((f"shop/p{i}", (3.6e6,)) for i in range(6)), (99e6,), "Kepler", "")
    use = replace(day_of_use(given, **{f"p{i}": 1000 for i in range(6)}), meters=Meters(CardUses(), energy))
    found = ask(three_nodes(6), "load=1.5", "zone-lost=x", history=use)
    assert [value(found, "Energy of pods", case) for case in range(2)] == pytest.approx([9.0, 4.0])  # c has room for 4
    before = as_it_is(CaseInputs(given, use, 0.01, None))
    after = outcome(CaseInputs(given, use, 0.01, None), before, read_what_ifs(["load=1.5"])[0], 0)
    assert after.use.meters.energy.nodes == ()
    assert after.use.meters.energy.why == NOT_KNOWN


def test_a_part_of_a_pod_is_one_with_that_probability() -> None:
    given = snapshot(three_nodes(3))
    (case,) = read_what_ifs(["load=1.5"])
    before = as_it_is(CaseInputs(given, None, 0.01, None))
    counts = [len(outcome(CaseInputs(given, None, 0.01, None), before, case, seed).running) for seed in range(12)]
    assert set(counts) == {4, 5}


def test_use_moves_with_its_pods() -> None:
    given = snapshot(three_nodes(3))
    use = day_of_use(given, p0=1000, p1=500, p2=250)
    before = as_it_is(CaseInputs(given, use, 0.01, None))
    after = outcome(CaseInputs(given, use, 0.01, None), before, read_what_ifs(["zone-lost=x"])[0], 0)
    assert after.use.nodes.names == ("c",)
    assert after.use.nodes.cpu_m[0, 0] == pytest.approx(100 + 250 + 1000 + 500)
    assert after.use.pods.node == ("c", "c", "c")
    assert before.use.nodes.cpu_m[:, 0].tolist() == [1100, 600, 350]  # the history itself is as before


def test_a_new_size_is_placed_anew() -> None:
    found = ask(three_nodes(), "size=shop/web:cpu=3")
    assert value(found, "Running pods") == 6  # two of three cores on each of eight
    assert value(found, "Pods without a place") == 3
    smaller = ask(three_nodes(), "size=shop/Deployment/web:cpu=1,memory=512Mi")
    assert (value(smaller, "Cores, allocated"), value(smaller, "Memory, allocated")) == (9, 4.5)


def test_without_overcommit_lent_pods_wait() -> None:
    lending = node("a")
    lending["status"]["allocatable"] |= {"kubernetes.io/batch-cpu": "4000"}
    amounts = {"requests": {"kubernetes.io/batch-cpu": "1000"}, "limits": {"kubernetes.io/batch-cpu": "1000"}}
    batch = pod("batch", "a", containers=[{"name": "main", "resources": amounts}])
    found = ask([lending, batch, pod("p", "a"), replica_set(2)], "overcommit=off")
    assert (value(found, "Running pods"), value(found, "Cores, lent and requested")) == (1, 0)
    assert found.cases[0].unplaced[0].example == "shop/batch"


def test_another_policy_packs_or_spreads() -> None:
    nodes = [node(name) for name in "abcd"]
    objects = [*nodes, *(pod(f"p{i}", "abcd"[i]) for i in range(4)), replica_set(4)]
    given = CaseInputs(snapshot(objects), None, 0.01, None)
    before = as_it_is(given)
    packed = outcome(given, before, read_what_ifs(["policy=best-fit"])[0], 0)
    spread = outcome(given, before, read_what_ifs(["policy=least-allocated"])[0], 0)
    assert len(set(packed.running.values())) == 1
    assert len(set(spread.running.values())) == 4


def test_what_comes_is_counted_against_brute_force() -> None:
    """Equal pods on equal nodes: as many have a place as slots, whatever is lost, added or copied."""
    rng = np.random.default_rng(3)
    for seed in range(6):
        nodes, cores = int(rng.integers(2, 6)), int(rng.integers(2, 5))
        pods = int(rng.integers(1, nodes * (8 // cores) + 1))
        objects = [in_zone(f"n{i}", f"z{i % 2}") for i in range(nodes)]
        objects += [pod(f"p{i}", f"n{i % nodes}", str(cores), "1Mi") for i in range(pods)]
        gone, added = int(rng.integers(1, nodes)), int(rng.integers(1, 3))
        text = f"remove={gone}:m5 load=2 add={added}:m5"
        found = ask([*objects, replica_set(pods)], text, seeds=(seed,))
        slots = (nodes - gone + added) * (8 // cores)
        assert value(found, "Running pods") == min(2 * pods, slots)
        assert value(found, "Pods without a place") == max(0, 2 * pods - slots)


def test_the_same_seed_gives_the_same_answer() -> None:
    first, second = (ask(three_nodes(), "remove=1:m5 load=1.1", seeds=(4, 5)) for _ in range(2))
    assert first == second
    assert what_if_rows(first)


def test_a_pod_of_higher_priority_evicts() -> None:
    important = pod("important", "a", "8", priority=1000)
    low = [pod(f"low{i}", "b", "4", priority=0) for i in range(2)]
    found = ask([in_zone("a", "x"), in_zone("b", "y"), important, *low, replica_set(3)], "zone-lost=x")
    assert value(found, "Pods evicted for others") == 2
    assert value(found, "Running pods") == 1
    assert {one.example for one in found.cases[0].unplaced} == {"shop/low0"}


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("zone-lost=q", "--what-if zone-lost"),
        ("remove=4:m5", "--what-if remove"),
        ("add=1:m6", "--what-if add"),
        ("size=shop/wub:cpu=1", "--what-if size"),
    ],
)
def test_what_is_not_there_is_refused(text: str, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        ask(three_nodes(), text)
    assert refused.value.field == field


@pytest.mark.parametrize(
    "text",
    ["", "lod=1", "load=nan", "load=0", "load=11", "add=0:m5", "add=x:m5", "add=1:", "remove=1", "overcommit=on",
     "policy=nix", "policy=best-fit policy=random", "size=web:cpu=1", "size=shop/web:cpu=x", "size=shop/web:gpu=1",
     "size=shop/web:cpu=1,cpu=2", "size=shop/web:cpu=-1", "zone-lost="],
)  # fmt: skip
def test_bad_changes_are_refused_before_anything_is_read(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_what_ifs([text])
