"""Use that goes with pods: each node has what it had, less what left, plus what came."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from cotenant.model.assess.history import AssessedHistory, ClusterHistory, PodHistory
from cotenant.model.assess.meters import CardUse, CardUses, Energy, Meters
from cotenant.services.assess.what_ifs.moved import CANNOT_MOVE, NOT_KNOWN, moved

STEPS = 3


def series(names: tuple[str, ...], start_s: float = 0.0, seed: int = 0) -> AssessedHistory:
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 50, (2, len(names), STEPS)).astype(np.float32)
    return AssessedHistory(start_s, 60.0, names, values[0], values[1], "made up")


def history(
    pods: dict[str, str], nodes: tuple[str, ...], meters: Meters | None = None, start_s: float = 0.0
) -> ClusterHistory:
    names = tuple(pods)
    requests = np.arange(len(names), dtype=np.float32)
    of_pods = PodHistory(
        series(names, start_s), tuple(pods.values()), tuple(f"w-{name}" for name in names), requests, requests * 2
    )
    of_nodes = series(nodes, seed=1)
    more = AssessedHistory(0.0, 60.0, nodes, of_nodes.cpu_m + 1000, of_nodes.memory_mib + 1000, "made up")
    return ClusterHistory(of_pods, more, meters=meters or Meters())


def by_name(of: AssessedHistory) -> dict[str, list[float]]:
    return {name: of.cpu_m[row].tolist() for row, name in enumerate(of.names)}


@pytest.mark.parametrize("seed", range(10))
def test_nodes_have_the_use_of_what_is_there_afterwards(seed: int) -> None:
    random = Random(seed)
    nodes = ("n0", "n1", "n2")
    before = {f"p{i}": random.choice(nodes) for i in range(8)}
    given = history(before, nodes)
    there = {*random.sample(nodes, 2), "new"}
    after = {key: random.choice(sorted(there)) for key in before if random.random() < 0.8}
    source = {f"q{i}": f"p{random.randrange(8)}" for i in range(3)}
    after |= {key: random.choice(sorted(there)) for key in source}
    unknown = {"strange": "n0"}  # of which no use is known
    found = moved(given, before, after | unknown, source, there)

    expected: dict[str, np.ndarray] = {}
    use = {name: given.pods.use.cpu_m[row] for row, name in enumerate(given.pods.use.names)}
    for row, name in enumerate(nodes):
        if name in there:
            expected[name] = given.nodes.cpu_m[row].astype(np.float64)
    for key in {*before, *after}:
        of, left, came = use[source.get(key, key)], before.get(key), after.get(key)
        if left == came:
            continue
        if left in there and left in expected:
            expected[left] = expected[left] - of
        if came is not None:
            expected[came] = expected.get(came, np.zeros(STEPS)) + of
    assert by_name(found.nodes) == {name: pytest.approx(values.tolist()) for name, values in expected.items()}
    names = found.pods.use.names
    assert set(names) == set(after)
    for row, name in enumerate(names):
        was = given.pods.use.names.index(source.get(name, name))
        assert found.pods.node[row] == after[name]
        assert found.pods.use.memory_mib[row].tolist() == given.pods.use.memory_mib[was].tolist()
        assert found.pods.workload[row] == given.pods.workload[was]
        assert (found.pods.cpu_request_m[row], found.pods.memory_request_mib[row]) == (was, 2 * was)


def test_use_never_falls_below_nothing_and_unknown_use_takes_nothing() -> None:
    given = history({"p0": "n0", "p1": "n0"}, ("n0", "n1"))
    given.nodes.cpu_m[0] = (5.0, 5.0, np.nan)
    given.pods.use.cpu_m[0] = (10.0, np.nan, 1.0)
    found = moved(given, {"p0": "n0"}, {"p0": "n1"}, {}, ("n0", "n1"))
    assert np.array_equal(found.nodes.cpu_m[0], np.array([0.0, 5.0, np.nan], np.float32), equal_nan=True)
    assert (found.nodes.cpu_m[1] - given.nodes.cpu_m[1]).tolist() == [10.0, 0.0, 1.0]


def test_pods_that_only_the_history_knows_keep_their_node() -> None:
    given = history({"p0": "n0", "old": "n1"}, ("n0", "n1"))
    found = moved(given, {"p0": "n0"}, {"p0": "n1"}, {}, ("n0", "n1"))
    assert dict(zip(found.pods.use.names, found.pods.node, strict=True)) == {"p0": "n1", "old": "n1"}


def test_where_pods_and_nodes_are_known_at_different_times_nodes_keep_theirs() -> None:
    given = history({"p0": "n0"}, ("n0", "n1"), start_s=600.0)
    found = moved(given, {"p0": "n0"}, {"p0": "n1"}, {}, ("n1",))
    assert by_name(found.nodes) == {"n1": by_name(given.nodes)["n1"]}
    assert found.faults == (CANNOT_MOVE,)
    assert found.pods.node == ("n1",)
    none = moved(history({}, ("n0",), start_s=600.0), {}, {}, {}, ("n0",))
    assert none.faults == ()


def test_where_nothing_is_known_of_nodes_none_is_added() -> None:
    found = moved(history({"p0": "n0"}, ()), {"p0": "n0"}, {"p0": "n1"}, {}, ("n0", "n1"))
    assert found.nodes.names == ()


def test_energy_goes_with_pods_and_that_of_nodes_and_cards_is_not_known() -> None:
    energy = Energy((("p0", (1.0,)), ("p1", (2.0,)), ("old", (3.0,))), (9.0,), "Kepler", "")
    cards = CardUses((CardUse("n0", "1", (1.0,), (1.0,)),), "DCGM", "")
    before = {"p0": "n0", "p1": "n0"}
    given = history(before, ("n0",), Meters(cards, energy))
    after = {"p0": "n0", "copy": "n0", "other": "n0"}
    found = moved(given, before, after, {"copy": "p1", "other": "p9"}, ("n0",)).meters
    assert found.energy.pods == (("p0", (1.0,)), ("old", (3.0,)), ("copy", (2.0,)))
    assert (found.energy.nodes, found.energy.why, found.energy.source) == ((), NOT_KNOWN, "Kepler")
    assert (found.cards.cards, found.cards.why) == ((), NOT_KNOWN)
    nothing = moved(history(before, ("n0",)), before, after, {}, ("n0",)).meters.energy
    assert (nothing.pods, nothing.why) == ((), Energy().why)
