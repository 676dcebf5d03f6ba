"""YAML documents of clients as JSON values, with bounds.

YAML is read by Python code at some 10 microseconds a value, aliases expand without bound, and its types are more than
JSON's. Values and nesting are counted on the parser's events, before anything is built; aliases are refused, or counted
as if written out; dates stay text, as Kubernetes reads them. A caller with an event loop decodes in a thread.
Limits: one document; 100,000 values (a large manifest has 10,000).
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant.drivers.kube.manifests.errors import ApiError
from cotenant.model.json_object import JsonValue

MAX_DEPTH = 256
MAX_VALUES = 100_000  # keys, scalars and collections
MAX_TEXT_BYTES = 3 << 20  # of aliases written out

Refusal = Callable[[str], ApiError]

_loader: object = None


def decode(body: bytes, refusal: Refusal, *, allows_aliases: bool = False) -> JsonValue:
    """The document as plain JSON values. Raises `refusal(message)` for what is not YAML, has aliases, or exceeds the
    bounds.

    `allows_aliases`: aliases are written out, within the same bounds.
    """
    import yaml  # type: ignore[import-untyped]

    try:
        _check(body, refusal, allows_aliases)
        document = yaml.load(body, Loader=_json_loader())
        if allows_aliases and b"*" in body:
            values, size = _written_out(document, {})
            if values > MAX_VALUES or size > MAX_TEXT_BYTES:
                raise refusal("yaml: document contains excessive aliasing")
    except RecursionError:
        raise refusal("yaml: exceeded max depth") from None
    except (yaml.YAMLError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise refusal(f"yaml: {' '.join(str(error).split())}") from None
    return _plain(document, refusal)


def _check(body: bytes, refusal: Refusal, allows_aliases: bool) -> None:
    import yaml

    depth = values = 0
    for event in yaml.parse(body, Loader=_json_loader()):
        if isinstance(event, yaml.AliasEvent) and not allows_aliases:
            raise refusal("yaml: aliases are not allowed")
        if isinstance(event, yaml.NodeEvent):
            values += 1
            if values > MAX_VALUES:
                raise refusal(f"yaml: more than {MAX_VALUES} values; send JSON instead")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise refusal("yaml: exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _written_out(value: object, known: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """Values and bytes of text of a document whose aliases are written out. Each shared value is walked once."""
    if isinstance(value, str):
        return 1, len(value)
    if not isinstance(value, dict | list):
        return 1, 0
    found = known.get(id(value))
    if found is None:
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        parts = [_written_out(entry, known) for entry in inner]
        found = known[id(value)] = 1 + sum(one for one, _ in parts), sum(two for _, two in parts)
    return found


def _json_loader() -> object:
    """YAML 1.1 as Kubernetes reads it: dates stay text."""
    global _loader
    if _loader is None:
        import yaml

        class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
            yaml_implicit_resolvers = {  # noqa: RUF012
                first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
                for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
            }

        _loader = Loader
    return _loader


def _plain(value: object, refusal: Refusal) -> object:
    """YAML's values as JSON has them: keys are text, there are no dates, sets or bytes."""
    if isinstance(value, dict):
        return {_key(key): _plain(inner, refusal) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, refusal) for inner in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise refusal(f"yaml: a value of type {type(value).__name__} has no JSON form")


def _key(key: object) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return key if isinstance(key, str) else str(key)
