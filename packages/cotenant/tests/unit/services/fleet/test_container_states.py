"""What the words of runtimes mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.model.fleet.containers import FleetContainer, ListedContainer
from cotenant.model.fleet.group import ContainerStep
from cotenant.model.fleet.states import ContainerState
from cotenant.services.fleet.functions.container_states import state_of, step_of, why_ended


@pytest.mark.parametrize(
    ("status", "health", "exit_code", "is_stopping", "state", "detail", "step"),
    [
        ("created", "", None, False, ContainerState.PENDING, "", ContainerStep.CREATED),
        ("running", "", None, False, ContainerState.READY, "", ContainerStep.RUNNING),
        ("running", "healthy", None, False, ContainerState.READY, "", ContainerStep.RUNNING),
        ("running", "starting", None, False, ContainerState.PENDING, "starting", ContainerStep.RUNNING),
        ("running", "unhealthy", None, False, ContainerState.PENDING, "unhealthy", ContainerStep.RUNNING),
        ("running", "unhealthy", None, True, ContainerState.STOPPING, "", ContainerStep.RUNNING),
        ("paused", "", None, False, ContainerState.READY, "", ContainerStep.RUNNING),
        ("restarting", "", 1, False, ContainerState.PENDING, "restarting", ContainerStep.RUNNING),
        ("removing", "", 0, False, ContainerState.STOPPING, "", ContainerStep.ENDED),
        ("exited", "", 0, False, ContainerState.TERMINATED, "", ContainerStep.ENDED),
        ("exited", "", 9, True, ContainerState.TERMINATED, "", ContainerStep.ENDED),
        ("exited", "", 9, False, ContainerState.FAILED, "ended with status 9", ContainerStep.ENDED),
        ("dead", "", 1, False, ContainerState.FAILED, "ended with status 1", ContainerStep.ENDED),
    ],
)
def test_what_a_runtimes_word_means(
    status: str,
    health: str,
    exit_code: int | None,
    is_stopping: bool,
    state: ContainerState,
    detail: str,
    step: ContainerStep,
) -> None:
    listed = ListedContainer("web-1", "id", "image", status, health, exit_code, {})
    assert state_of(listed, is_stopping) == (state, detail)
    assert step_of(status) is step


def test_why_a_container_ended() -> None:
    found = FleetContainer("n", "i", "image", "exited", "", "", 1, "", 0, 0.0, 0, False)
    assert why_ended(found) == "ended with status 1"
    assert why_ended(replace(found, out_of_memory=True, error="killed")) == "ended with status 1, out of memory: killed"
