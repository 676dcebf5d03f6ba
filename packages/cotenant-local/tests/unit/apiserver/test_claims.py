"""What a claim costs the server that checks it."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_local.apiserver.schema.kinds.claims import selector
from cotenant_local.apiserver.schema.kinds.claims.requests import MAX_EXPRESSIONS, MAX_REQUESTS, check_devices


def causes(requests: list[dict[str, Any]]) -> list[str]:
    found: list[Any] = []
    check_devices({"requests": requests}, "spec.devices", found)
    return [str(cause.message) for cause in found]


def ask(at: int, length: int, selectors: int = 1) -> dict[str, Any]:
    texts = [f'"{at} {of}" != "{"x" * (length - 20)}"' for of in range(selectors)]
    return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1} | {
        "selectors": [{"cel": {"expression": text}} for text in texts]
    }


@pytest.mark.parametrize("form", ["exactly", "firstAvailable"])
def test_the_selectors_of_a_claim_have_a_length_in_all(form: str) -> None:
    def requests(length: int) -> list[dict[str, Any]]:
        asks = [ask(at, length, 4) for at in range(MAX_REQUESTS)]
        if form == "exactly":
            return [{"name": f"r{at}", form: one} for at, one in enumerate(asks)]
        return [{"name": f"r{at}", form: [{"name": "a"} | one]} for at, one in enumerate(asks)]

    fits = MAX_EXPRESSIONS // (4 * MAX_REQUESTS) - 10
    assert causes(requests(fits)) == []
    (why,) = causes(requests(fits + 100))
    assert f"{MAX_EXPRESSIONS} characters in all" in why


@pytest.mark.parametrize(
    "expression",
    [
        "device" + ".a" * 3000,
        "(" * 2000 + "true" + ")" * 2000,
        "[" * 3000 + "]" * 3000,
        'cel.bind("a", 1, true)',
    ],
)
def test_an_odd_expression_is_refused_as_such(expression: str) -> None:
    found: list[Any] = []
    selector.check({"cel": {"expression": expression}}, "spec.selectors[0]", found)
    assert [cause.field for cause in found] == ["spec.selectors[0].cel.expression"]


def test_a_selector_that_many_requests_have_counts_once() -> None:
    asks = [{"name": f"r{at}", "exactly": ask(0, 9_000)} for at in range(MAX_REQUESTS)]
    assert causes(asks) == []
