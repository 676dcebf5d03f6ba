"""Bodies of requests: from bytes to a mapping, hostile ones refused.

Problem: a body may be JSON or YAML, nested without end, or (YAML) grow a thousandfold by aliases. Choice: msgspec reads JSON, PyYAML's safe
loader YAML with dates left as text (Kubernetes' objects are JSON), and both refuse depth and size that no API object has. Limits: of several
YAML documents in one body only a single one is taken, as the real server does.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cotenant.local.apiserver.contract import ApiError, Manifest

MAX_DEPTH = 300  # levels of nesting
MAX_VALUES = 2_000_000  # values in one YAML body, aliases written out

_JSON = msgspec.json.Decoder()


def read_document(body: bytes | Manifest, *, yaml: bool = False) -> Any:
    """What the body says; `ApiError` 400 where it cannot be read."""
    if not isinstance(body, bytes | bytearray | memoryview):
        return body
    try:
        return _JSON.decode(body)
    except RecursionError:
        raise _unreadable("the body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        if not yaml:
            raise _unreadable(str(wrong)) from None
    return _read_yaml(bytes(body))


def read_mapping(body: bytes | Manifest, *, yaml: bool = False) -> Manifest:
    """The same for a body that must be an object."""
    found = read_document(body, yaml=yaml)
    if not isinstance(found, dict):
        name = {list: "array", str: "string", bool: "bool", type(None): "null"}.get(type(found), "number")
        raise _unreadable(f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}")
    return found


def copied(value: Manifest) -> Manifest:
    """A copy that shares nothing."""
    copy: Manifest = copy_value(value)
    return copy


def copy_value(value: Any) -> Any:
    """The same for any JSON value. Faster than encoding and decoding it, and it keeps the order of keys."""
    if type(value) is dict:
        return {key: copy_value(each) if type(each) in _NESTED else each for key, each in value.items()}
    if type(value) is list:
        return [copy_value(each) if type(each) in _NESTED else each for each in value]
    return value


_NESTED = frozenset((dict, list))


def refuse_deep(value: Any, limit: int = MAX_DEPTH) -> None:
    """`ApiError` 400 where a value is nested deeper than any object of an API, so that no walk after it overflows the stack."""
    level = [value] if type(value) in _NESTED else []
    for _ in range(limit):
        level = [
            each
            for one in level
            for each in (one.values() if type(one) is dict else one)
            if type(each) is dict or type(each) is list
        ]
        if not level:
            return
    raise _unreadable("the body is nested too deeply")


def _read_yaml(body: bytes) -> Any:
    import yaml  # type: ignore[import-untyped]

    loader: Any = type("JsonLoader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    loader.yaml_implicit_resolvers = {
        first: [(tag, rule) for tag, rule in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in loader.yaml_implicit_resolvers.items()
    }
    try:
        found = yaml.load(body, loader)
        if b"&" in body:
            _refuse_bomb(found)
        return _JSON.decode(msgspec.json.encode(found))  # keys become text, what is no JSON is refused
    except RecursionError:
        raise _unreadable("the body is nested too deeply") from None
    except (yaml.YAMLError, TypeError, ValueError) as wrong:
        raise _unreadable(
            f"error converting YAML to JSON: {str(wrong).splitlines()[0] if str(wrong) else 'unreadable'}"
        ) from None


def _refuse_bomb(value: Any) -> None:
    waiting = [value]
    seen = 0
    while waiting:
        one = waiting.pop()
        if type(one) in _NESTED:
            seen += len(one)
            if seen > MAX_VALUES:
                raise _unreadable("error converting YAML to JSON: document contains excessive aliasing")
            waiting.extend(one.values() if type(one) is dict else one)


def _unreadable(words: str) -> ApiError:
    return ApiError(400, "BadRequest", f"error decoding patch: {words}")
