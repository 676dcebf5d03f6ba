"""The part of the chart's schema that is the agent's own configuration: `node.config`, from the types in the code.

    python -m tools.manifests        writes it with the manifests

A misspelt policy in the values passed the schema, and the agents of all nodes refused to start. As `build` reads the
types of `AgentConfig`, so does this; a test compares the file with it.
Limits: what a value checks by itself (bounds, what excludes what) shows when an agent starts. What the chart sets by
other values is left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from cotenant.services.agent_settings.config import AgentConfig

FILE = Path(__file__).parents[1] / "deploy/chart/values.schema.json"
BY_THE_CHART = {"mode", "node", "cgroup_root", "keeper", "kubelet_groups"}  # node.mode, the pod's own, node.cgroupRoot
PLAIN: dict[Any, dict[str, Any]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    Path: {"type": "string"},
    NoneType: {"type": "null"},
}


def schema_of(form: object) -> dict[str, Any]:
    """What a value of this type may be in YAML, as `model.document.build` reads it."""
    if form in PLAIN:
        return dict(PLAIN[form])
    if isinstance(form, type) and issubclass(form, Enum):
        return {"enum": [member.value for member in form]}
    if isinstance(form, type) and is_dataclass(form):
        types = get_type_hints(form)
        properties = {field.name: schema_of(types[field.name]) for field in fields(form)}
        return {"type": "object", "properties": properties, "additionalProperties": False}
    origin, inner = get_origin(form), get_args(form)
    if origin in (Union, UnionType):
        return _any_of(inner)
    if origin is tuple and inner[1:] == (Ellipsis,):
        return {"type": "array", "items": schema_of(inner[0])}
    if origin is tuple:
        return {
            "type": "array",
            "items": [schema_of(entry) for entry in inner],
            "minItems": len(inner),
            "maxItems": len(inner),
        }
    if origin is Mapping or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    raise TypeError(f"no schema for {form}")


def _any_of(options: tuple[Any, ...]) -> dict[str, Any]:
    forms = [schema_of(option) for option in options]
    if all(set(form) == {"type"} for form in forms):
        return {"type": [form["type"] for form in forms]}
    if any(is_dataclass(option) for option in options):
        return {"anyOf": [form for form in forms if form != {"type": "null"}] + [{"type": ["boolean", "null"]}]}
    return {"anyOf": forms}


def agent_config() -> dict[str, Any]:
    """The schema of `node.config`."""
    whole = schema_of(AgentConfig)
    return {
        **whole,
        "properties": {name: entry for name, entry in whole["properties"].items() if name not in BY_THE_CHART},
    }


def schema() -> str:
    """The text of the chart's schema, with this part as it should be."""
    whole = json.loads(FILE.read_text())
    whole["properties"]["node"]["properties"]["config"] = agent_config()
    return json.dumps(whole, indent=1) + "\n"
