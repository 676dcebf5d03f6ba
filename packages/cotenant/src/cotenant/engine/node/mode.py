"""How far an agent goes."""

from __future__ import annotations

from enum import StrEnum


class AgentMode(StrEnum):
    """How far the agent goes."""

    ACT = "act"
    DRY_RUN = "dry-run"  # decides and emits everything, for a keeper that only records; `Instructions.dry` is set
    OBSERVE = "observe"  # decides and records, emits nothing
