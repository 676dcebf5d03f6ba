"""Output of `cotenant explain service`: the chain of each incident as the agents of the given nodes tell it, or the
trace process for all nodes, or their answers as one JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from cotenant.cli import tables
from cotenant.model.errors import InvalidInput, Permanent, Transient
from cotenant.model.json_object import JsonMapping, JsonObject
from cotenant.services.clients.agent import AgentClient
from cotenant.services.traces.client import TraceClient


def service(name: str, agents: Sequence[str], as_json: bool) -> int:
    """Ask each agent. Raises `Permanent` where none knows the service."""
    asked = _qualified(name)
    stories, failures = list[JsonObject](), list[str]()
    for agent in agents:
        try:
            stories.append(AgentClient(agent).get("/v1/explain", service=asked))
        except (Permanent, Transient) as error:
            failures.append(str(error))
    if not stories:
        raise Permanent("; ".join(failures))
    _show(asked, stories, failures, as_json)
    return 0


def service_of_cluster(name: str, url: str, token_file: Path | None, ca: Path | None, as_json: bool) -> int:
    """Ask the trace process. Raises `Permanent` where it knows no incident of the service."""
    asked = _qualified(name)
    try:
        rows = TraceClient(url, token_file, ca).stories(asked)
    except InvalidInput as error:
        raise (
            InvalidInput("--traces", error.value, error.expected, error.hint) if error.field == "--url" else error
        ) from None
    if not rows:
        raise Permanent(f"no node has reported an incident of {asked} since the trace process started")
    _show(asked, [msgspec.to_builtins(row.story) for row in rows], [], as_json)
    return 0


def _qualified(name: str) -> str:
    if not name.strip("/"):
        raise InvalidInput("NAME", name, "NAMESPACE/NAME")
    return name if "/" in name else f"default/{name}"


def _show(asked: str, stories: Sequence[JsonMapping], failures: Sequence[str], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"service": asked, "nodes": stories, "failures": failures}))
        return
    for story in stories:
        tables.print_line(f"node {story['node']}", strong=True)
        for line in story["text"]:
            tables.print_folded(line)
    for failure in failures:
        tables.print_folded(failure)
