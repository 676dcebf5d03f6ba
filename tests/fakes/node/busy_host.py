"""A host whose CPUs others have: a guest of a zone boots there for longer than a person would wait."""

from __future__ import annotations

import pytest
from tests.fakes.waiting import patience

from cotenant.services.zones import host, vm_backend, vm_opening


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that an emulated processor runs gets the time that it takes here."""
    monkeypatch.setattr(vm_opening, "AGENT_WITHIN_S", patience(vm_opening.AGENT_WITHIN_S))
    monkeypatch.setattr(vm_opening, "PODS_WITHIN_S", patience(vm_opening.PODS_WITHIN_S))
    monkeypatch.setattr(vm_backend, "ATTACH_S", patience(vm_backend.ATTACH_S))
    monkeypatch.setattr(host, "VM_STARTED_WITHIN_S", patience(host.VM_STARTED_WITHIN_S))
