"""States of a Control Zone, what its engine asks for, and one line of its history."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cotenant.model.machine.node_decision import Reason
from cotenant.model.zones.setting import ZoneSetting
from cotenant.model.zones.table import ZoneRow
from cotenant.model.zones.zone_reading import ZoneReading


class ZoneState(StrEnum):
    """States of a zone; `engine/zones/transitions.py` has the legal changes. Enabled and attached are two states:
    an attach may succeed without effect.
    """

    DEFINED = "defined"
    PREPARING = "preparing"  # the setting is being loaded and attached
    ATTACHED = "attached"  # the back end accepted it
    VERIFIED = "verified"  # the kernel reports that it runs
    CANARY = "canary"  # measured against what ran before
    ACTIVE = "active"
    ROLLING_BACK = "rolling-back"
    FAILED = "failed"  # no back end is left: the fair class runs the tasks
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Attach:
    """Detach what runs, then load and attach this setting; report `attached` or `refused`."""

    setting: ZoneSetting


@dataclass(frozen=True, slots=True)
class Verify:
    """Read back whether the kernel runs this setting; report `verified`."""

    setting: ZoneSetting


@dataclass(frozen=True, slots=True)
class PutRows:
    """Write these rows; by group. Groups that the zone no longer has are dropped."""

    rows: tuple[tuple[str, ZoneRow], ...]


@dataclass(frozen=True, slots=True)
class Detach:
    """Return the tasks to the fair class."""


@dataclass(frozen=True, slots=True)
class ReclaimGroups:
    """Reclaim so many bytes of each of these groups now; by group. It cannot be undone."""

    steps: tuple[tuple[str, int], ...]


ZoneInstruction = Attach | Verify | PutRows | ReclaimGroups | Detach


@dataclass(frozen=True, slots=True)
class ZoneChange:
    """A change of rows or setting, why it was made, and what it brought. `after` and `kept` are None while it is
    tried. `rows`: group, row before, row after.
    """

    at_s: float
    what: str
    reason: Reason
    before: ZoneReading | None = None
    after: ZoneReading | None = None
    kept: bool | None = None
    outcome: str = ""
    rows: tuple[tuple[str, ZoneRow, ZoneRow], ...] = ()
