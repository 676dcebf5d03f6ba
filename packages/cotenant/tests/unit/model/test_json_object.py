import pytest

from cotenant.model.errors import InvalidInput
from cotenant.model.json_object import json_object


def test_an_object_is_read() -> None:
    assert json_object("annotation a", '{"a": [1, "b"]}') == {"a": [1, "b"]}


@pytest.mark.parametrize("text", ["", "a", "[]", "null", "3", '{"a":', '{"a":' * 100_000, '{"a": ' + "9" * 5000 + "}"])
def test_what_is_none_is_named(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"^annotation a: .*: expected an object with b$"):
        json_object("annotation a", text, "an object with b")
