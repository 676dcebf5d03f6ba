from __future__ import annotations

import pytest
from tests.unit.policy.quota.shapes import cpu, quota

from cotenant.model.errors import InvalidInput
from cotenant.model.groups.quota import DEFAULT_QUOTA, SYSTEM_QUOTA
from cotenant.policy.quota.forest import Forest


def forest() -> Forest:
    made = Forest(
        [
            quota("team", is_parent=True),
            quota("web", 10, 100, "team", namespaces=("front", "back")),
            quota("ml", 0, 50, tree_id="gpu"),
            quota(DEFAULT_QUOTA, 0, 20),
        ]
    )
    made.set_total(cpu(100))
    made.set_total(cpu(40), "gpu")
    return made


@pytest.mark.parametrize(
    ("namespace", "label", "wanted"),
    [
        ("front", "", "web"),
        ("front", "ml", "ml"),
        ("ml", "", "ml"),
        ("team", "", DEFAULT_QUOTA),
        ("front", "gone", DEFAULT_QUOTA),
        ("kube-system", "", SYSTEM_QUOTA),
        ("other", "", DEFAULT_QUOTA),
        ("other", SYSTEM_QUOTA, SYSTEM_QUOTA),
    ],
)
def test_which_quota_a_pod_belongs_to(namespace: str, label: str, wanted: str) -> None:
    told = forest().membership(namespace, label)
    assert told.quota == wanted
    assert told.because


def test_trees_share_nothing() -> None:
    made = forest()
    assert made.tree_ids() == ("", "gpu")
    made.ask("ml", cpu(90))
    made.ask("web", cpu(90))
    made.use("ml", cpu(40))
    assert made.tree("gpu").runtime("ml") == (("cpu", 40),)
    assert made.tree().runtime("web") == (("cpu", 90),)
    assert (made.used("ml"), made.used("web")) == ((("cpu", 40),), (("cpu", 0),))
    assert [short.missing for short in made.shortages("ml", cpu(1))] == [1]
    made.validate()


def test_what_pods_outside_use_is_taken_off_the_default_tree() -> None:
    made = forest()
    made.ask("web", cpu(100))
    made.use(SYSTEM_QUOTA, cpu(15))
    made.ask(DEFAULT_QUOTA, cpu(15))
    made.use(DEFAULT_QUOTA, cpu(15))
    assert made.tree().runtime("web") == (("cpu", 70),)
    assert made.shortages(DEFAULT_QUOTA, cpu(5)) == ()
    assert [short.missing for short in made.shortages(DEFAULT_QUOTA, cpu(6))] == [1]
    assert made.shortages(SYSTEM_QUOTA, cpu(1000)) == ()
    made.use(DEFAULT_QUOTA, cpu(15), gone=True)
    made.ask("web", cpu(100), gone=True)
    made.ask("web", cpu(99))
    assert made.tree().runtime("web") == (("cpu", 85),)
    made.validate()
    made.tree().set_total(cpu(1))
    with pytest.raises(AssertionError, match="default tree's total"):
        made.validate()


def test_a_name_a_namespace_and_a_tree_mean_one_thing() -> None:
    with pytest.raises(InvalidInput, match="each name once"):
        Forest([quota("a"), quota("a", tree_id="gpu")])
    with pytest.raises(InvalidInput, match="each namespace in one quota"):
        Forest([quota("a", namespaces=("n",)), quota("b", namespaces=("n",))])
    with pytest.raises(InvalidInput, match="one of '', 'gpu'"):
        forest().tree("cpu")
    with pytest.raises(InvalidInput, match="the name of a quota"):
        forest().ask("nobody", cpu(1))


def test_quotas_come_change_and_go_under_load() -> None:
    made = forest()
    made.ask("web", cpu(30))
    made.put(quota("web", 10, 20, "team", namespaces=("back", "new")))
    assert made.tree().runtime("web") == (("cpu", 20),)
    assert [made.membership(space).quota for space in ("front", "back", "new")] == [DEFAULT_QUOTA, "web", "web"]
    made.put(quota("far", 0, 5, tree_id="other"))
    made.put(quota(DEFAULT_QUOTA, 0, 7))
    assert made.tree_ids() == ("", "gpu", "other")
    assert [short.missing for short in made.shortages(DEFAULT_QUOTA, cpu(8))] == [1]
    made.remove(DEFAULT_QUOTA)
    made.remove("web")
    assert made.shortages(DEFAULT_QUOTA, cpu(8)) == ()
    assert made.membership("back").quota == DEFAULT_QUOTA
    made.validate()


def test_a_change_that_does_not_hold_together_changes_nothing() -> None:
    made = forest()
    with pytest.raises(InvalidInput, match="the tree it is in"):
        made.put(quota("web", 10, 100, tree_id="gpu"))
    with pytest.raises(InvalidInput, match="each namespace in one quota"):
        made.put(quota("x", namespaces=("front",)))
    with pytest.raises(InvalidInput, match="as its parent"):
        made.put(quota("x", parent="ml", namespaces=("x",)))  # of another tree
    with pytest.raises(InvalidInput, match="without children"):
        made.remove("team")
    assert made.membership("x").quota == DEFAULT_QUOTA
    assert made.membership("front").quota == "web"
    made.validate()


def test_requests_and_use_are_taken_back() -> None:
    made = forest()
    for name in ("web", "ml"):
        made.ask(name, cpu(90))
        made.ask(name, cpu(30), gone=True)
        made.use(name, cpu(25))
        made.use(name, cpu(20), gone=True)
        assert made.used(name) == (("cpu", 5),)
    assert made.tree("gpu").runtime("ml") == (("cpu", 40),)
    assert made.tree().runtime("web") == (("cpu", 60),)
    made.validate()


def test_use_outside_the_trees_comes_and_goes_and_leaves_no_trace() -> None:
    made = forest()
    made.ask("web", cpu(100))
    made.ask(SYSTEM_QUOTA, cpu(100))  # counts nowhere
    made.use(SYSTEM_QUOTA, cpu(15))
    made.use(SYSTEM_QUOTA, cpu(10))
    made.use(DEFAULT_QUOTA, cpu(5))
    assert (made.used(SYSTEM_QUOTA), made.used(DEFAULT_QUOTA)) == ((("cpu", 25),), (("cpu", 5),))
    assert made.tree().total() == cpu(70)
    assert made.tree().runtime("web") == (("cpu", 70),)
    made.use(SYSTEM_QUOTA, cpu(10), gone=True)
    assert made.used(SYSTEM_QUOTA) == (("cpu", 15),)
    assert made.tree().total() == cpu(80)
    made.use(SYSTEM_QUOTA, cpu(15), gone=True)
    assert made.used(SYSTEM_QUOTA) == ()
    made.use(DEFAULT_QUOTA, cpu(1000))
    assert made.tree().total() == cpu(0)  # never below
    assert made.tree("gpu").total() == cpu(40)
    made.validate()


def test_outside_the_trees_only_a_maximum_limits() -> None:
    made = forest()
    made.use(DEFAULT_QUOTA, cpu(15))
    assert made.shortages(DEFAULT_QUOTA, cpu(5)) == ()
    (short,) = made.shortages(DEFAULT_QUOTA, cpu(8))
    assert (short.quota, short.missing) == (DEFAULT_QUOTA, 3)
    assert made.shortages(SYSTEM_QUOTA, cpu(1000)) == ()
    made.remove(DEFAULT_QUOTA)  # only reset
    assert made.shortages(DEFAULT_QUOTA, cpu(1000)) == ()
    assert made.used(DEFAULT_QUOTA) == (("cpu", 15),)
    assert made.quota(DEFAULT_QUOTA).maximum.items == ()
    made.put(quota(SYSTEM_QUOTA, 0, 3))
    assert [one.missing for one in made.shortages(SYSTEM_QUOTA, cpu(4))] == [1]


def test_namespaces_follow_their_quota() -> None:
    made = forest()
    made.put(quota("web", 10, 100, "team", namespaces=("back", "third")))
    assert [made.membership(name).quota for name in ("front", "back", "third")] == [DEFAULT_QUOTA, "web", "web"]
    with pytest.raises(InvalidInput, match="each namespace in one quota"):
        made.put(quota("rival", 0, 1, namespaces=("back",)))
    assert made.tree_of("web") is made.tree()
    assert made.tree_of(SYSTEM_QUOTA) is None
    with pytest.raises(InvalidInput, match="the name of a quota"):
        made.tree_of("rival")
    made.remove("web")
    assert made.membership("back").quota == DEFAULT_QUOTA
    made.put(quota("rival", 0, 1, namespaces=("back",)))
    assert made.membership("back").quota == "rival"
    with pytest.raises(InvalidInput, match="the tree it is in"):
        made.put(quota("rival", 0, 1, tree_id="gpu"))
    with pytest.raises(InvalidInput, match="one of '', 'gpu'"):
        made.tree("other")


def test_why_a_pod_belongs_to_its_quota() -> None:
    made = forest()
    for namespace, label, because in (
        ("front", "ml", "the pod's label names ml"),
        ("front", "gone", "the pod's label names gone, which does not exist"),
        ("x", "team", "the pod's label names team, a parent, which cannot have pods"),
        ("front", "", "it takes the pods of namespace front"),
        ("ml", "", "it is named after namespace ml"),
        ("kube-system", "", "system pods"),
        ("x", "", "no label, and no quota for namespace x"),
    ):
        assert made.membership(namespace, label).because == because
