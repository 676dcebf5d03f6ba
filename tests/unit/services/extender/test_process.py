"""Arguments that do not fit together are one line before anything is served."""

from pathlib import Path

import pytest

from cotenant.cli.main import main
from cotenant.drivers.http.address import Address
from cotenant.model.errors import InvalidInput
from cotenant.services.extender.process import ExtenderComponents, Settings, check
from cotenant.services.extender.profile_judge import ProfileJudge

HERE = Path("x.pem")


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (Settings(listen="127.0.0.1"), "--listen"),
        (Settings(listen="127.0.0.1:70000"), "--listen"),
        (Settings(listen="127.0.0.1:x"), "--listen"),
        (Settings(health_listen="8080"), "--health-listen"),
        (Settings(listen=":8888"), "--listen"),
        (Settings(listen="0.0.0.0:8888"), "--listen"),
        (Settings(listen="[::]:8888"), "--listen"),
        (Settings(listen=":8888", tls_cert=HERE, tls_key=HERE), "--listen"),
        (Settings(tls_cert=HERE), "--tls-cert, --tls-key"),
        (Settings(tls_key=HERE), "--tls-cert, --tls-key"),
        (Settings(client_ca=HERE), "--client-ca"),
        (Settings(profile="cotenant"), "--profile cotenant"),
        (Settings(bind=True), "--bind"),
    ],
)
def test_refused(settings: Settings, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(settings)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(listen="[::1]:0"),
        Settings(listen="localhost:8888"),
        Settings(listen=":8888", insecure=True),
        Settings(listen=":8888", tls_cert=HERE, tls_key=HERE, client_ca=HERE, health_listen=":8080"),
        Settings(profile="cotenant", cluster=True, bind=True),
        Settings(profile="founding-ledger"),
    ],
)
def test_accepted(settings: Settings) -> None:
    check(settings)


def test_addresses() -> None:
    assert Address.parse("f", ":1") == Address("0.0.0.0", 1)
    assert str(Address.parse("f", "[::1]:2")) == "[::1]:2"
    assert Address.parse("f", "127.8.0.1:2").is_loopback


def test_profiles() -> None:
    with pytest.raises(InvalidInput, match="founding"):
        ExtenderComponents(Settings(profile="best"))
    assert isinstance(ExtenderComponents(Settings(profile="best-fit")).judge, ProfileJudge)


def test_the_command_says_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extender", "--listen", ":8888"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cotenant: --listen")
    assert said.count("\n") == 1
    assert main(["extender", "--report-token-file", "/nowhere/token"]) == 2
    assert main(["extender", "--score-max", "1000"]) == 2
    assert main(["extender", "--log-level", "loud"]) == 2
