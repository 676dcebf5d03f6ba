"""Profile files: what is written is read, and what cannot be meant is refused by name."""

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profile_file import is_profile_file, parse_profile, profile_text
from cotenant.policy.placement.profiles import profile


def test_what_is_written_is_read_back() -> None:
    text = profile_text("founding", (("founding_capacity", 62.1), ("founding_latency", 8.5)), "trial 3")
    read = parse_profile(text, "p.yaml")
    assert (read.name, read.score) == ("founding", profile("founding").score)
    assert (read.knobs.founding_capacity, read.knobs.founding_latency) == (62.1, 8.5)
    assert read.knobs.founding_fairness == 15.0


def test_a_file_without_knobs_is_the_built_in_profile() -> None:
    assert parse_profile(b"profile: cotenant-requests\n", "p.yaml") == profile("cotenant-requests")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"profile: foundin\n", r"p.yaml: profile: .*did you mean founding"),
        (b"profile: founding\nknobs: {founding_capcity: 1}\n", r"p.yaml: knobs"),
        (b"profile: founding\nknobs: {founding_capacity: .nan}\n", r"p.yaml: knobs"),
        (b"profile: founding\nknob: {}\n", r"p.yaml"),
        (b"knobs: {}\n", r"p.yaml"),
        (b"", r"p.yaml"),
        (b"[", r"p.yaml"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(text: bytes, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        parse_profile(text, "p.yaml")


def test_files_are_told_from_names_by_their_suffix() -> None:
    assert is_profile_file("out/profile.yaml")
    assert not is_profile_file("cotenant-requests")
