"""`--profile`: a built-in name or a profile file; in a cluster requests fit under every profile."""

from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.cli.cluster.scheduler import DEFAULT_PROFILE
from cotenant.model.errors import InvalidInput
from cotenant.policy.placement.codes import Fit
from cotenant.policy.placement.profiles import PROFILES, profile
from cotenant.services.scheduling.names import by_requests, cluster_profile, predicts_use


def test_a_name_is_a_built_in_profile() -> None:
    assert cluster_profile("--profile", "founding") == profile("founding")


def test_a_file_sets_knobs(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("profile: founding\nknobs: {founding_latency: 8.5}\n")
    assert cluster_profile("--profile", str(path)).knobs.founding_latency == 8.5


@pytest.mark.parametrize("text", ["profile: cotenants\n", "profile: founding\nknobs: {founding: 1}\n", "", None])
def test_a_file_that_cannot_run_is_refused_by_its_name(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InvalidInput, match=r"mine\.yaml"):
        cluster_profile("--profile", str(path))


def test_requests_fit_under_every_profile_in_a_cluster() -> None:
    for entry in PROFILES:
        assert by_requests(cluster_profile("--profile", entry.name)).fit is Fit.REQUESTS


def test_pods_with_lent_requests_fit_by_predicted_use_under_the_default() -> None:
    assert predicts_use(cluster_profile("--profile", DEFAULT_PROFILE))
    assert not predicts_use(cluster_profile("--profile", "cotenant-requests"))


def test_without_lent_resources_the_default_is_cotenant_requests() -> None:
    ours, before = by_requests(profile(DEFAULT_PROFILE)), profile("cotenant-requests")
    assert replace(ours, name=before.name, summary=before.summary) == before


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="cotenant-requests"):
        cluster_profile("--profile", "best")
