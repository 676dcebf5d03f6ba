"""The difference of two documents as a JSON patch (RFC 6902).

An API server rejects the pod when a webhook's patch does not apply, under failurePolicy Ignore too, and `add` below an
absent parent does not. Walk both documents together; whatever is absent from the first is added whole at its nearest
present ancestor, so that the patch always applies to the first and gives the second.
Limits: a list of another length is replaced whole, so the patch is not always the shortest.
"""

from __future__ import annotations

from cotenant.model.json_object import JsonObject, JsonValue

Operation = JsonObject


def difference(before: object, after: object, path: str = "") -> list[Operation]:
    """Operations that make `before` equal to `after`; empty where they are equal. 1, 1.0 and true differ."""
    operations: list[Operation] = []
    _compare(before, after, path, operations)
    return operations


def _compare(before: JsonValue, after: JsonValue, path: str, found: list[Operation]) -> None:
    kind = type(before)
    if kind is not type(after):
        found.append({"op": "replace", "path": path, "value": after})
    elif kind is dict:
        for key, value in before.items():
            if key in after:
                other = after[key]
                if value is not other:
                    _compare(value, other, f"{path}/{_escaped(key)}", found)
            else:
                found.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
        for key, value in after.items():
            if key not in before:
                found.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": value})
    elif kind is list and len(before) == len(after):
        for index, (value, other) in enumerate(zip(before, after, strict=True)):
            if value is not other:
                _compare(value, other, f"{path}/{index}", found)
    elif before != after:
        found.append({"op": "replace", "path": path, "value": after})


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1") if "~" in key or "/" in key else key
