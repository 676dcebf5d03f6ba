"""Dataclasses from documents: every field by its path, parts that may be left out, errors that name the place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import msgspec
import pytest

from cotenant.engine.node.policies import PolicySettings
from cotenant.model.document import build, parse, read_struct
from cotenant.model.errors import InvalidInput
from cotenant.services.agent_settings.config import AgentConfig


@dataclass(frozen=True)
class Inner:
    share: int = 5

    def __post_init__(self) -> None:
        if self.share > 10:
            raise InvalidInput("share", self.share, "at most 10")


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Inner = Inner()
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    place: Path | None = None
    ratio: float = 1.0


def test_parts_and_lists_of_parts() -> None:
    given = {"name": "a", "inner": {"share": 3}, "many": [{"share": 1}, {}], "place": "/x", "ratio": 2}
    assert build(Outer, given) == Outer("a", Inner(3), None, (Inner(1), Inner()), Path("/x"), 2.0)


@pytest.mark.parametrize(("given", "part"), [(None, None), (False, None), (True, Inner()), ({"share": 7}, Inner(7))])
def test_a_part_that_may_be_absent(given: object, part: Inner | None) -> None:
    assert build(Outer, {"name": "a", "maybe": given}).maybe == part


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "name: missing: expected a value"),
        ({"name": 1}, "name: 1: expected text"),
        ({"name": "a", "nme": 1}, "nme: unknown: expected a field of this part; did you mean name?"),
        ({"name": "a", "inner": {"share": "x"}}, "inner.share: x: expected a whole number"),
        ({"name": "a", "inner": {"share": 11}}, "inner.share: 11: expected at most 10"),
        ({"name": "a", "many": [{}, {"share": 11}]}, "many[1].share: 11: expected at most 10"),
        ({"name": "a", "many": {}}, "many: {}: expected a list"),
        ({"name": "a", "inner": []}, "inner: []: expected a mapping of fields to values"),
        ({"name": "a", "maybe": "x"}, "maybe: x: expected a mapping of fields to values"),
        ({"name": "a", "place": 7}, "place: 7: expected a path"),
        ({"name": "a", "ratio": True}, "ratio: True: expected a number"),
        ({"name": True}, "name: True: expected text"),
    ],
)
def test_errors_name_the_place(given: object, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        build(Outer, given, "f.yaml:")
    assert str(caught.value) == f"f.yaml: {said}"


@pytest.mark.parametrize(
    "text", ["x: 2026-13-45", "x: " + "9" * 5000, "x: !!int abc", "x: !!timestamp abc", "x: [", "x: \x00"]
)
def test_text_that_is_no_yaml_is_one_line(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"f.yaml.*expected YAML") as caught:
        parse(text.encode(), "f.yaml")
    assert "\n" not in str(caught.value)


def test_toml() -> None:
    assert parse(b"x = 1", "f.toml", is_toml=True) == {"x": 1}
    with pytest.raises(InvalidInput, match="expected TOML"):
        parse(b"x: 1", "f.toml", is_toml=True)


class Settings(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    half_life: float = 1.0
    shares: dict[str, int] | None = None


def test_structs() -> None:
    assert read_struct(Settings, b"# nothing", "f", "settings", may_be_empty=True) == Settings()
    assert read_struct(Settings, b"halfLife: 2\nshares: {cpu: 3}", "f", "settings") == Settings(2.0, {"cpu": 3})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"halflife: 2", "did you mean halfLife?"),
        (b"other: 2", "fields are halfLife, shares"),
        (b"shares: {cpu: x}", "$.shares[...]"),
        (b"[1]", "Expected `object`"),
        (b"", "Expected `object`"),
        (b"{", "expected YAML with settings"),
    ],
)
def test_a_struct_that_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_struct(Settings, text, "f.yaml", "settings")
    assert str(caught.value).startswith("f.yaml: ")
    assert said in str(caught.value)


def test_a_path_of_a_user_whom_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="keeper: ~nouser/x: expected a path"):
        build(AgentConfig, {"keeper": "~nouser/x"})


def test_every_setting_of_every_policy_can_be_read() -> None:
    """A setting of a type that the reader does not know would fail for the first person who sets it."""
    parts = {field.name: True for field in fields(PolicySettings) if field.type != "bool"}
    config = build(AgentConfig, {"node": "n1", "policies": parts, "cluster": True})
    assert None not in [getattr(config.policies, name) for name in parts]
    written = msgspec.to_builtins(config, enc_hook=str)
    assert build(AgentConfig, written) == config
    assert written["policies"] != {}
