"""Arguments that do not fit together are one line before anything is served."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.servers.extender_forms import written
from tests.fakes.servers.told_watches import nobody

from cotenant.cli.main import main
from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.extender_arguments import FOUNDING_MAX, ExtenderSettings, check
from cotenant.services.extender.extender_process import ExtenderComponents
from cotenant.services.extender.profile_judge import ProfileJudge

HERE = Path("x.pem")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (ExtenderSettings(listen="127.0.0.1"), "--listen"),
        (ExtenderSettings(listen="127.0.0.1:70000"), "--listen"),
        (ExtenderSettings(listen="127.0.0.1:x"), "--listen"),
        (ExtenderSettings(health_listen="8080"), "--health-listen"),
        (ExtenderSettings(listen=":8888"), "--listen"),
        (ExtenderSettings(listen="0.0.0.0:8888"), "--listen"),
        (ExtenderSettings(listen="[::]:8888"), "--listen"),
        (ExtenderSettings(listen=":8888", tls_cert=HERE, tls_key=HERE), "--listen"),
        (ExtenderSettings(tls_cert=HERE), "--tls-cert, --tls-key"),
        (ExtenderSettings(tls_key=HERE), "--tls-cert, --tls-key"),
        (ExtenderSettings(client_ca=HERE), "--client-ca"),
        (ExtenderSettings(profile="cotenant"), "--profile cotenant"),
        (ExtenderSettings(bind=True), "--bind"),
    ],
)
def test_refused(settings: ExtenderSettings, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(settings)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "settings",
    [
        ExtenderSettings(),
        ExtenderSettings(listen="[::1]:0"),
        ExtenderSettings(listen="localhost:8888"),
        ExtenderSettings(listen=":8888", insecure=True),
        ExtenderSettings(listen=":8888", tls_cert=HERE, tls_key=HERE, client_ca=HERE, health_listen=":8080"),
        ExtenderSettings(profile="cotenant", cluster=True, bind=True),
        ExtenderSettings(profile="founding-ledger"),
    ],
)
def test_accepted(settings: ExtenderSettings) -> None:
    check(settings)


def test_addresses() -> None:
    assert Address.parse("f", ":1") == Address("0.0.0.0", 1)
    assert str(Address.parse("f", "[::1]:2")) == "[::1]:2"
    assert Address.parse("f", "127.8.0.1:2").is_loopback


def test_profiles() -> None:
    with pytest.raises(InvalidInput, match="founding"):
        ExtenderComponents(ExtenderSettings(profile="best"))
    assert isinstance(ExtenderComponents(ExtenderSettings(profile="best-fit")).judge, ProfileJudge)


def test_the_command_says_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extender", "--listen", ":8888"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cotenant: --listen")
    assert said.count("\n") == 1
    assert main(["extender", "--report-token-file", "/nowhere/token"]) == 2
    assert main(["extender", "--score-max", "1000"]) == 2
    assert main(["extender", "--log-level", "loud"]) == 2


CLUSTER = ExtenderSettings(cluster=True)
REFUSED_TOGETHER = [
    (ExtenderSettings(tls_cert=HERE, tls_key=HERE, health_tls=True), "--health-tls"),
    (ExtenderSettings(health_listen=":8080", health_tls=True), "--health-tls"),
    (ExtenderSettings(score_max=0), "--score-max"),
    (ExtenderSettings(score_max=FOUNDING_MAX + 1), "--score-max"),
    (ExtenderSettings(credit=True), "--credit"),
    (replace(CLUSTER, credit=True, profile="best-fit"), "--credit"),
    (ExtenderSettings(report_account="ns/agent"), "--report-account"),
    (replace(CLUSTER, report_account="agent"), "--report-account"),
]


@pytest.mark.parametrize(("settings", "field"), REFUSED_TOGETHER)
def test_refused_together(settings: ExtenderSettings, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(settings)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "settings",
    [
        ExtenderSettings(tls_cert=HERE, tls_key=HERE, health_listen=":8080", health_tls=True),
        ExtenderSettings(score_max=1),
        ExtenderSettings(score_max=FOUNDING_MAX),
        replace(CLUSTER, credit=True),
        replace(CLUSTER, credit=True, profile="founding-ledger"),
        replace(CLUSTER, report_account="ns/agent"),
    ],
)
def test_accepted_together(settings: ExtenderSettings) -> None:
    check(settings)


def made(settings: ExtenderSettings) -> ExtenderComponents:
    return ExtenderComponents(settings, lambda: 0.0, nobody() if settings.cluster else None)


def test_without_a_cluster_it_is_ready_at_once_and_with_one_once_everything_was_listed(ask: Any) -> None:
    assert ask(made(ExtenderSettings()).app, "/readyz", method="GET").status == 200
    parts = made(CLUSTER)
    answer = ask(parts.app, "/readyz", method="GET")
    assert (answer.status, b"have not all been listed" in answer.body) == (503, True)
    parts.mirror.sync()
    assert ask(parts.app, "/readyz", method="GET").status == 200


@pytest.mark.parametrize(
    ("settings", "status"), [(CLUSTER, 404), (replace(CLUSTER, bind=True), 405), (ExtenderSettings(), 404)]
)
def test_it_binds_only_where_that_is_asked_for(settings: ExtenderSettings, status: int, ask: Any) -> None:
    assert ask(made(settings).app, "/bind", method="GET").status == status


def test_quotas_are_watched_for_credit_alone() -> None:
    for settings in (CLUSTER, replace(CLUSTER, credit=True)):
        parts = made(settings)
        assert (parts.standings is not None) == settings.credit
        assert parts.watches is not None
        assert len(parts.watches._watches._reflectors) == (4 if settings.credit else 2)
    assert made(ExtenderSettings()).watches is None


def test_reports_of_nodes_that_the_cluster_does_not_have_are_refused(ask: Any) -> None:
    told = {"node_name": "stranger", "cpu_allocatable": 8, "cpu_used": 8, "memory_allocatable": 9, "memory_used": 1}
    body = written({**told, "timestamp": 0.0})
    assert ask(made(ExtenderSettings()).app, "/metrics/report", body).status == 204
    parts = made(CLUSTER)
    assert ask(parts.app, "/metrics/report", body).status == 503  # nobody knows yet
    parts.mirror.sync()
    assert ask(parts.app, "/metrics/report", body).status == 404
