"""JSONPaths of printer columns and selectable fields: `.spec.replicas`,
`.status.conditions[?(@.type=="Ready")].status`.

Definitions name fields by kubectl's JSONPath. The subset that definitions use, compiled to steps: names, quoted names,
indices, `[*]` and one comparison in a filter.
Limits: no recursive descent, slices or functions; such a path is refused when the definition is written.
Source: Kubernetes documentation "JSONPath Support"; "Additional printer columns".
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cotenant.drivers.kube.manifests.errors import Manifest
from cotenant.model.json_object import JsonValue

_TOKEN = re.compile(
    r"\.(?P<name>(?:[A-Za-z0-9_$-]|\\.)+)"
    r"|\[\s*(?:'(?P<quoted>[^']*)'|\"(?P<double>[^\"]*)\")\s*\]"
    r"|\[\s*(?P<index>-?[0-9]+)\s*\]"
    r"|(?P<all>\[\s*\*\s*\]|\.\*)"
    r"|\[\?\(\s*@\.(?P<field>[A-Za-z0-9_.\\/-]+)\s*(?P<sign>==|!=|<=|>=|<|>)\s*(?P<value>'[^']*'|\"[^\"]*\"|[^)\s]+)\s*\)\]"
)
_SIGNS: dict[str, Callable[[JsonValue, JsonValue], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class _Filter:
    field: tuple[str, ...]
    sign: str
    value: JsonValue

    def holds(self, item: object) -> bool:
        for name in self.field:
            item = item.get(name) if isinstance(item, dict) else None
        if item is None:
            return False
        try:
            return _SIGNS[self.sign](item, self.value)
        except TypeError:
            return False


_ALL = object()


_Step: TypeAlias = str | int | _Filter | object  # the last: `_ALL`


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A compiled path."""

    text: str
    steps: tuple[_Step, ...]

    @property
    def names(self) -> tuple[str, ...] | None:
        """The field names of a path that has only field names, else None."""
        names = tuple(step for step in self.steps if isinstance(step, str))
        return names if len(names) == len(self.steps) else None

    def find(self, obj: Manifest) -> list[object]:
        """All values at the path, in order."""
        found: list[JsonValue] = [obj]
        for step in self.steps:
            below: list[JsonValue] = []
            for value in found:
                if isinstance(step, str):
                    if isinstance(value, dict) and step in value:
                        below.append(value[step])
                elif isinstance(step, int):
                    if isinstance(value, list) and -len(value) <= step < len(value):
                        below.append(value[step])
                elif isinstance(value, list | dict):
                    entry = value if isinstance(value, list) else list(value.values())
                    below += [one for one in entry if step.holds(one)] if isinstance(step, _Filter) else entry
            found = below
        return found


def compile_path(text: str) -> JsonPath:
    """Compile a path (with or without the braces that kubectl allows). Raises ValueError if it is malformed or not
    in the supported subset.
    """
    body = text.strip()
    if body.startswith("{") and body.endswith("}"):
        body = body[1:-1].strip()
    body = body.removeprefix("$")
    if not body.startswith((".", "[")):
        raise ValueError(f"{text}: a path must begin with '.'")
    steps: list[_Step] = []
    at = 0
    if body == ".":
        return JsonPath(text, ())
    while at < len(body):
        match = _TOKEN.match(body, at)
        if match is None:
            raise ValueError(f"{text}: cannot be parsed from {body[at:]!r}")
        if match["name"] is not None:
            steps.append(re.sub(r"\\(.)", r"\1", match["name"]))
        elif match["quoted"] is not None or match["double"] is not None:
            steps.append(match["quoted"] if match["quoted"] is not None else match["double"])
        elif match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["all"] is not None:
            steps.append(_ALL)
        else:
            field = tuple(part.replace("\0", ".") for part in match["field"].replace("\\.", "\0").split("."))
            steps.append(_Filter(field, match["sign"], _literal(match["value"])))
        at = match.end()
    return JsonPath(text, tuple(steps))


def _literal(text: str) -> object:
    if text[0] in "'\"":
        return text[1:-1]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
