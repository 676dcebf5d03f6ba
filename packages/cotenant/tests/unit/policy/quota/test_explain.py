from __future__ import annotations

from tests.unit.policy.quota.shapes import cpu, quota

from cotenant.policy.quota.explain import explain
from cotenant.policy.quota.tree import QuotaTree


def founding() -> QuotaTree:
    asked = {"A": (10, 40, 5), "B": (15, 60, 20), "C": (20, 50, 40), "D": (15, 80, 70)}
    tree = QuotaTree(
        [
            quota(name, minimum * 1000, 100_000, shared_weight=cpu(weight))
            for name, (minimum, weight, _) in asked.items()
        ],
        cpu(100_000),
    )
    for name, (_, _, request) in asked.items():
        tree.ask(name, cpu(request * 1000))
    return tree


def test_the_first_two_terms_add_up_to_the_runtime() -> None:
    tree = founding()
    runtimes = []
    for name in "ABCD":
        (reason,) = explain(tree, name)
        assert [term.name for term in reason.terms[:2]] == ["start", "shared"]
        runtimes.append(sum(term.value for term in reason.terms[:2]))
        assert dict(tree.runtime(name)) == {"cpu": runtimes[-1]}
    assert [round(runtime / 1000) for runtime in runtimes] == [5, 20, 35, 40]


def test_the_text_gives_lent_shared_reserved_and_scaled_amounts() -> None:
    tree = founding()
    assert (
        explain(tree, "A")[0].text
        == "cpu: runtime 5 of the parent's 100: all that it requests, and 5 of its guarantee is lent"
    )
    assert (
        explain(tree, "C")[0].text
        == "cpu: runtime 35385m of the parent's 100: 20 guaranteed + 15385m shared by weight 50, requests 40"
    )
    tree.put(quota("A", 10_000, 100_000, lends=False))
    text = "cpu: runtime 10 of the parent's 100: all that it requests, and 5 of its guarantee stays reserved for it"
    assert explain(tree, "A")[0].text == text
    tree.ask("A", cpu(5000))
    assert explain(tree, "A")[0].text == "cpu: runtime 10 of the parent's 100: all that it requests"
    tree.set_total(cpu(30_000))
    assert "; the minimum 20 is scaled to 10 because all minima together do not fit" in explain(tree, "C")[0].text
