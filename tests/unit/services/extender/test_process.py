"""Arguments that do not fit together are one line before anything is served."""

from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.process import ExtenderComponents, ExtenderSettings, check
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
