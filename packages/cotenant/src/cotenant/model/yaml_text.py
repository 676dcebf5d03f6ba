"""YAML that is read strictly: a key that stands twice in one mapping is refused, where PyYAML lets the last one win.

`with_core_scalars` reads plain scalars by YAML 1.2's core schema, as compose files are written: `22:22`, `yes` and
`2024-01-01` are texts. Else they are a number of base 60, a truth value and a date, as YAML 1.1 has them.
"""

from __future__ import annotations

import re
from typing import ClassVar

import yaml  # type: ignore[import-untyped]

_BASE = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOL, _INT, _FLOAT, _TIMESTAMP, _MERGE = (
    f"tag:yaml.org,2002:{name}" for name in ("bool", "int", "float", "timestamp", "merge")
)


class _CoreLoader(_BASE):  # type: ignore[misc, valid-type]
    """Without the forms that YAML 1.2 dropped."""

    yaml_implicit_resolvers: ClassVar[dict[str | None, list[tuple[str, re.Pattern[str]]]]] = {
        letter: [(tag, form) for tag, form in forms if tag not in (_BOOL, _INT, _FLOAT, _TIMESTAMP)]
        for letter, forms in _BASE.yaml_implicit_resolvers.items()
    }


_NUMBER = r"\d[\d_]*\.[\d_]*(?:[eE][-+]?\d+)?|\.\d[\d_]*(?:[eE][-+]?\d+)?|\.(?:inf|Inf|INF)"
for _tag, _form, _letters in (
    (_BOOL, "true|True|TRUE|false|False|FALSE", "tTfF"),
    (_FLOAT, rf"[-+]?(?:{_NUMBER})|\.(?:nan|NaN|NAN)", "-+0123456789."),
    (_INT, r"[-+]?(?:0b[01_]+|0x[\da-fA-F_]+|0[0-7_]*|[1-9][\d_]*)", "-+0123456789"),
):
    _CoreLoader.add_implicit_resolver(_tag, re.compile(f"^(?:{_form})$"), list(_letters))


def load_yaml(text: bytes, *, with_core_scalars: bool = False) -> object:
    """What one document holds; None where there is none.

    Raises `ValueError` for a doubled key and for an alias within what it names, and what PyYAML raises.
    """
    loader = (_CoreLoader if with_core_scalars else _BASE)(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check(node, set(), set())
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _check(node: yaml.Node, inside: set[int], checked: set[int]) -> None:
    if isinstance(node, yaml.ScalarNode) or id(node) in checked:
        return
    if id(node) in inside:
        raise ValueError(f"line {node.start_mark.line + 1} is part of itself, by an alias")
    inside.add(id(node))
    if isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in lines:
                    first = lines[key.tag, key.value]
                    raise ValueError(f"{key.value} stands twice in one mapping, in lines {first} and {line}")
                lines[key.tag, key.value] = line
            _check(value, inside, checked)
    else:
        for value in node.value:
            _check(value, inside, checked)
    inside.discard(id(node))
    checked.add(id(node))
