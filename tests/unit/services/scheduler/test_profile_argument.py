"""`--profile`: a built-in name or a profile file; one by which requests need not fit is refused."""

from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.profiles import profile
from cotenant.services.scheduler.names import profile_by_requests


def test_a_name_is_a_built_in_profile() -> None:
    assert profile_by_requests("--profile", "founding") == profile("founding")


def test_a_file_sets_knobs(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("profile: founding\nknobs: {founding_latency: 8.5}\n")
    assert profile_by_requests("--profile", str(path)).knobs.founding_latency == 8.5


@pytest.mark.parametrize("text", ["profile: cotenant\n", "profile: founding\nknobs: {founding: 1}\n", "", None])
def test_a_file_that_cannot_run_is_refused_by_its_name(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInput, match=r"mine\.yaml"):
        profile_by_requests("--profile", str(path))


def test_an_overcommitting_profile_is_refused() -> None:
    with pytest.raises(InvalidInput, match="requests fit"):
        profile_by_requests("--profile", "cotenant")
