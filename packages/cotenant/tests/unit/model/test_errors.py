"""Errors keep what they say on the way through another process."""

import pickle

import pytest

from cotenant.model.errors import InvalidInput, Permanent, Transient, Unsupported


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("load", 9.0, "at most 1.5", "lower it"),
        Transient("busy", 2.5),
        Permanent("never"),
        Unsupported("flow", "ortools"),
    ],
)
def test_an_error_survives_pickling_with_its_parts(error: Exception) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert vars(back) == vars(error)


def test_invalid_input_is_one_line_that_names_field_value_and_what_to_do() -> None:
    assert str(InvalidInput("load", 9.0, "at most 1.5", "lower it")) == "load: 9.0: expected at most 1.5; lower it"
    assert len(str(InvalidInput("text", "x" * 1000, "less"))) < 150
    long = str(InvalidInput("--dir", "/a" * 100 + "/token", "a file"))
    assert long.startswith("--dir: '/a/a")
    assert "/token': expected a file" in long
    assert str(InvalidInput("name", "a\nb\udcff", "a name")) == "name: a\\nb\\udcff: expected a name"
