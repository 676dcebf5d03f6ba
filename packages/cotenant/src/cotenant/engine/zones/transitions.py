"""The legal changes of a zone's state, each with its meaning."""

from __future__ import annotations

from cotenant.model.errors import Permanent
from cotenant.model.zones.state import ZoneState as S

LEGAL: dict[tuple[S, S], str] = {
    (S.DEFINED, S.PREPARING): "started",
    (S.PREPARING, S.ATTACHED): "the back end accepted the setting",
    (S.PREPARING, S.PREPARING): "the back end refused it: the next one",
    (S.PREPARING, S.FAILED): "no back end is left",
    (S.ATTACHED, S.VERIFIED): "the kernel reports that it runs",
    (S.ATTACHED, S.ROLLING_BACK): "attached, but the kernel does not run it",
    (S.VERIFIED, S.CANARY): "compared with what ran before",
    (S.CANARY, S.ACTIVE): "kept",
    (S.CANARY, S.ROLLING_BACK): "worse than before, or ejected",
    (S.ACTIVE, S.CANARY): "rows changed",
    (S.ACTIVE, S.PREPARING): "another setting",
    (S.ACTIVE, S.ROLLING_BACK): "ejected by the kernel",
    (S.ROLLING_BACK, S.PREPARING): "an earlier setting, or the next back end",
    (S.ROLLING_BACK, S.ACTIVE): "earlier rows",
    (S.ROLLING_BACK, S.FAILED): "no back end is left",
    (S.FAILED, S.PREPARING): "started again",
    **{(state, S.GONE): "destroyed" for state in S if state is not S.GONE},
}


def check(before: S, after: S) -> str:
    """What the change means. Raises `Permanent` where it is not legal."""
    meaning = LEGAL.get((before, after))
    if meaning is None:
        raise Permanent(f"a zone cannot change from {before} to {after}")
    return meaning
