"""Profile files: a placement profile with its knobs, as YAML.

A tuned profile must reach a scheduler without a change of code, and a misspelt knob must not be ignored. A file names a
built-in profile and the knobs that differ; it is read strictly. `cotenant lab tune` writes such files, `cotenant
scheduler --profile FILE` reads them.
Limits: orders, fits and scores are those of the built-in profile.

    profile: founding
    knobs: {founding_capacity: 62.1, founding_latency: 8.5}
    note: where the numbers come from
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches

import msgspec

from cotenant.model.document import read_struct
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import PROFILES, PlacementProfile, profile

SUFFIXES = (".yaml", ".yml", ".json")


class ProfileFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a profile file."""

    profile: str
    knobs: dict[str, float] = {}
    note: str = ""


def is_profile_file(name: str) -> bool:
    """Whether a `--profile` argument names a file rather than a built-in profile."""
    return name.lower().endswith(SUFFIXES)


def parse_profile(text: bytes, source: str) -> PlacementProfile:
    """The profile in a file's text; its name is the built-in one's. Raises `InvalidInput` naming `source` and the
    field.
    """
    read = read_struct(ProfileFile, text, source, "a profile file")
    known = [entry.name for entry in PROFILES]
    if read.profile not in known:
        close = get_close_matches(read.profile, known, n=1)
        hint = f"did you mean {close[0]}?" if close else ""
        raise InvalidInput(f"{source}: profile", read.profile, f"one of {', '.join(known)}", hint)
    base = profile(read.profile)
    try:
        changed = base.with_values(tuple(read.knobs.items()))
    except InvalidInput as error:
        raise InvalidInput(f"{source}: knobs", error.value, error.expected, error.hint) from error
    return replace(changed, summary=f"{base.summary}; knobs from a profile file") if read.knobs else base


def profile_text(name: str, knobs: tuple[tuple[str, float], ...], note: str) -> bytes:
    """The text of a profile file that sets `knobs` of the profile `name`."""
    return msgspec.yaml.encode({"profile": name, "knobs": dict(knobs), "note": note})
