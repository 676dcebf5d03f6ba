"""The outcomes of a sample in a file, a line each after a first one that says which sample, so that a later call goes
on where one ended.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.mutation.operators import Change
from tools.mutation.trials import Mutant, Outcome


class OtherSample(Exception):
    """The file is of another draw, or the sources have changed since."""


def digest(paths: Iterable[Path], root: Path) -> str:
    """Of sources: two calls go on with one sample where it is the same."""
    found = hashlib.sha256()
    for path in sorted(paths):
        text = path.read_bytes()
        found.update(f"{path.relative_to(root)} {len(text)}\n".encode() + text)
    return found.hexdigest()[:16]


def begun(state: Path, draw: Mapping[str, object]) -> list[Outcome]:
    """What the file has of this draw, which is written to one that is not there. Raises `OtherSample`."""
    if not state.exists():
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(json.dumps(dict(draw)) + "\n")
        return []
    first, *rest = state.read_text().splitlines()
    was, now = json.loads(first), json.loads(json.dumps(dict(draw)))
    if was != now:
        differ = ", ".join(
            f"{name} {was.get(name)!r}, now {now.get(name)!r}"
            for name in sorted({*was, *now})
            if was.get(name) != now.get(name)
        )
        raise OtherSample(f"{state} is of another sample: {differ}; give the options it was begun with or another file")
    return [_outcome(json.loads(line)) for line in rest]


def line(outcome: Outcome) -> str:
    """As it is kept and as `--json` prints it."""
    change = outcome.mutant.change
    return json.dumps(
        {
            "file": outcome.mutant.file,
            "line": change.line,
            "begin": change.begin,
            "end": change.end,
            "kind": change.kind,
            "replacement": change.replacement,
            "dead": outcome.dead,
            "by_slow": outcome.by_slow,
            "tests": outcome.tests,
            "said": outcome.said,
            "noticed": list(outcome.noticed[:4]),
        }
    )


def _outcome(kept: Mapping[str, object]) -> Outcome:
    place = {name: kept[name] for name in ("line", "begin", "end", "kind", "replacement")}
    noticed = kept["noticed"]
    assert isinstance(noticed, list)
    return Outcome(
        Mutant(str(kept["file"]), Change(**place)),  # type: ignore[arg-type]
        bool(kept["dead"]),
        int(str(kept["tests"])),
        str(kept["said"]),
        bool(kept["by_slow"]),
        tuple(noticed),
    )


def interval_pct(dead: int, tried: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    if not tried:
        return 0.0, 100.0
    z, share = 1.96, dead / tried
    middle = share + z * z / (2 * tried)
    half = z * math.sqrt(share * (1 - share) / tried + z * z / (4 * tried * tried))
    scale = 100 / (1 + z * z / tried)
    return max(0.0, (middle - half) * scale), min(100.0, (middle + half) * scale)


def summary(outcomes: Sequence[Outcome], equivalent: int, drawn: int, seed: int, tests: str) -> list[str]:
    """What a person reads at the end: `equivalent` changes of the draw are judged by hand and were not tried."""
    tried = len(outcomes)
    dead = sum(outcome.dead for outcome in outcomes)

    def rate(of: int) -> str:
        low, high = interval_pct(dead, of)
        return f"{100 * dead / of if of else 0.0:.1f} % ({low:.1f} to {high:.1f})"

    by_slow = sum(outcome.by_slow for outcome in outcomes if outcome.dead)
    return [
        f"{tried + equivalent} of {drawn} changes, seed {seed}: {dead} dead, {tried - dead} alive, {equivalent} "
        "equivalent by hand",
        f"noticed by the {tests}: {rate(tried + equivalent)}; without the equivalent ones {rate(tried)}"
        + (f"; {dead - by_slow} by the fast ones" if by_slow else ""),
    ]
