"""What a runtime tells of a container, in the fleet's words: its step, its state, and why it ended."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.group import ContainerStep
from cotenant.model.fleet.states import ContainerState
from cotenant.services.fleet.functions.logs.last_line import last_line


def step_of(status: str) -> ContainerStep:
    """By the runtime's word; Docker's are all runtimes'."""
    if status == "created":
        return ContainerStep.CREATED
    return ContainerStep.ENDED if status in ("exited", "dead", "removing") else ContainerStep.RUNNING


def state_of(listed: ListedContainer, is_stopping: bool) -> tuple[ContainerState, str]:
    """The state, and what more is known of it."""
    match listed.status:
        case "created":
            return ContainerState.PENDING, ""
        case "exited" | "dead":
            if is_stopping or not listed.exit_code:
                return ContainerState.TERMINATED, ""
            return ContainerState.FAILED, f"ended with status {listed.exit_code}"
        case "restarting":
            return ContainerState.PENDING, "restarting"
        case "removing":
            return ContainerState.STOPPING, ""
    if is_stopping:
        return ContainerState.STOPPING, ""
    if listed.health in ("starting", "unhealthy"):
        return ContainerState.PENDING, listed.health
    return ContainerState.READY, ""


async def last_words(found: FleetContainer) -> str:
    """Why it ended, with what it said last: once it is removed nobody can look."""
    said = await asyncio.to_thread(last_line, Path(found.log_path)) if found.log_path else ""
    return why_ended(found) + (f"; its log ends: {said}" if said else "")


def why_ended(found: FleetContainer) -> str:
    """Its exit status, and what the runtime said."""
    said = f"ended with status {found.exit_code}"
    if found.out_of_memory:
        said += ", out of memory"
    return said + (f": {found.error}" if found.error else "")
