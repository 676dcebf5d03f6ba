"""Prints what is allowed and what was earned, as tables or as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cotenant.cli.tables import print_folded, print_words
from cotenant.model.autonomy.autonomy import Action, Autonomy
from cotenant.policy.autonomy.ladder import Earned
from cotenant.policy.autonomy.permission import may_begin_by


def show(
    objects: Sequence[Autonomy], earned: Mapping[Action, Mapping[str, Earned]], as_json: bool, now_s: float
) -> int:
    """Print; returns the exit status. `now_s`: Unix time, of which it is said whether something may be begun."""
    if as_json:
        rows = [
            {
                "name": found.name,
                "namespaces": sorted(found.namespaces),
                "actions": sorted(found.actions),
                "ceiling": found.ceiling.name.lower(),
                "windows": len(found.windows),
                "blackouts": len(found.blackouts),
                "mayBegin": may_begin_by(found, now_s),
                "freeze": found.freeze,
                "wrong": found.wrong,
            }
            for found in objects
        ]
        found_by = {action: {name: _fields(one) for name, one in found.items()} for action, found in earned.items()}
        print(
            msgspec.json.encode(
                {
                    "objects": rows,
                    "earned": found_by[Action.SIZES],
                    "earnedMoves": found_by[Action.MOVES],
                    "earnedLending": found_by[Action.LENDING],
                }
            ).decode()
        )
        return 0
    if not objects:
        print("no Autonomy objects: movers go as far as their own settings say, at any time")
    else:
        print_words(
            ("autonomy", "namespaces", "actions", "ceiling", "windows", "frozen"),
            [
                (
                    found.name,
                    ", ".join(sorted(found.namespaces)) or "all",
                    ", ".join(sorted(found.actions)) or "all",
                    found.ceiling.name.lower(),
                    _windows(found, now_s),
                    f"by {found.freeze.by or 'nobody named'}: {found.freeze.why}" if found.freeze else "-",
                )
                for found in objects
            ],
        )
    for found in objects:
        for wrong in found.wrong:
            print_folded(f"{found.name}: {wrong}")
    for action, stands in earned.items():
        if stands:
            print()
            print_words(
                (f"{action} in", "earned", "held", "at least", "because"),
                [
                    (namespace, one.rung.name.lower(), f"{one.hits} of {one.trials}", f"{100 * one.low:.0f} %", one.why)
                    for namespace, one in stands.items()
                ],
            )
    return 0


def _windows(found: Autonomy, now_s: float) -> str:
    said = str(len(found.windows)) if found.windows else "any time"
    return said if may_begin_by(found, now_s) else f"{said}, closed now"


def _fields(one: Earned) -> dict[str, object]:
    return {**msgspec.to_builtins(one), "rung": one.rung.name.lower()}
