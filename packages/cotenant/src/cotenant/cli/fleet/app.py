"""The group `cotenant fleet` with all of its commands: each module adds its own to the one that is imported here."""

from __future__ import annotations

from cotenant.cli.fleet import experiment, keys, profile, programs, terminal, top
from cotenant.cli.fleet.commands import app

__all__ = ["app", "experiment", "keys", "profile", "programs", "terminal", "top"]
