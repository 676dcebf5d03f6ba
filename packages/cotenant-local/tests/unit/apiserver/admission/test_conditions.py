"""What an expression in CEL cannot say of an object is a failed condition, never an error of the server."""

from typing import Any

import pytest

from cotenant_local.apiserver.admission.conditions import ConditionFailed, MatchCondition, all_hold, problem


def held(expression: str, obj: Any) -> bool:
    review = {"request": {"operation": "CREATE", "object": obj, "oldObject": None}}
    return all_hold((MatchCondition("c", expression),), review)


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"x": found}
    return found


@pytest.mark.parametrize("obj", [{"a": 2**70}, {"a": -(2**70)}, nested(3000)])
def test_an_object_that_cannot_be_converted_fails_the_condition(obj: dict[str, Any]) -> None:
    with pytest.raises(ConditionFailed, match="cannot read the object"):
        held("true", obj)


@pytest.mark.parametrize("expression", ["nothing.x", "foo(1)", "'a'", "1 + 'a' == 2", "1 / 0 == 1", "object.b == 1"])
def test_an_expression_without_a_value_fails(expression: str) -> None:
    with pytest.raises(ConditionFailed, match="matchCondition c: "):
        held(expression, {"a": 1})


def test_many_alternatives_about_what_an_object_lacks_have_an_answer() -> None:
    """Each error once doubled the one before: the server would not have answered again."""
    lacking = " || ".join(f"object.metadata.labels.l{i} == 'x'" for i in range(100))
    with pytest.raises(ConditionFailed, match="matchCondition c: "):
        held(lacking, {"metadata": {}})
    assert held(f"{lacking} || object.a == 1", {"metadata": {}, "a": 1})


def test_what_this_server_cannot_evaluate_is_said() -> None:
    assert problem("object.") != ""
    assert "authorizer" in problem("authorizer.path('/x').check('get').allowed()")
    assert problem("object.a == 1") == ""
