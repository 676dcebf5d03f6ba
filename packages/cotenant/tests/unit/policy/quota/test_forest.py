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
