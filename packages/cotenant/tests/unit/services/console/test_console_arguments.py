"""What the arguments of `cotenant console` mean."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cotenant.drivers.kube.client.access import SERVICE_ACCOUNT, Access
from cotenant.drivers.kube.client.credentials import Credential, FixedCredential
from cotenant.model.errors import InvalidInput
from cotenant.services.clients import scheduler_address, traces_address
from cotenant.services.console.console_arguments import ConsoleArguments
from cotenant.services.console.login_link import link
from cotenant.services.console.main import keep_link_out_of_logs, options_of


@pytest.mark.parametrize(("process", "at"), [("scheduler", scheduler_address), ("traces", traces_address)])
def test_a_process_is_the_named_one_or_the_one_beside_the_kubeconfig_in_use(
    process: str, at: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(**given: Any) -> str:
        found: str = getattr(options_of(ConsoleArguments(**given)), process)()
        return found

    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert asked() == at.DEFAULT_URL
    config = tmp_path / "kubeconfig"
    named = getattr(options_of(ConsoleArguments(kubeconfig=config)), process)
    assert named() == at.DEFAULT_URL  # there is no such file yet
    (tmp_path / at.URL_FILE).write_text("http://127.0.0.1:4242\n")
    assert named() == "http://127.0.0.1:4242"  # read at each question: `cotenant up` may start again
    monkeypatch.setenv("KUBECONFIG", f"{config}:/elsewhere")
    assert asked() == "http://127.0.0.1:4242"
    assert asked(**{process: "http://other:1"}) == "http://other:1"


def test_the_console_may_have_no_trace_process(tmp_path: Path) -> None:
    (tmp_path / traces_address.URL_FILE).write_text("http://127.0.0.1:4242")
    assert options_of(ConsoleArguments(kubeconfig=tmp_path / "kubeconfig", traces="")).traces() == ""


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (ConsoleArguments(listen="unix:/x"), "--listen"),
        (ConsoleArguments(listen="0.0.0.0:1"), "--listen"),
        (ConsoleArguments(tls_cert=Path("/x")), "--tls-cert"),
        (ConsoleArguments(period_s=0.1), "--period-s"),
        (ConsoleArguments(period_s=float("nan")), "--period-s"),
        (ConsoleArguments(scheduler="localhost:1"), "--scheduler"),
        (ConsoleArguments(traces="ftp://x"), "--traces"),
        (ConsoleArguments(agents="{ip}:10262"), "--agents"),
        (ConsoleArguments(results=Path("/none")), "--results"),
        (ConsoleArguments(proxy_header="X User"), "--proxy-header"),
        (ConsoleArguments(proxy_header="X-User", proxy_from="lan"), "--proxy-from"),
        (ConsoleArguments(credit="credit:10265"), "--credit"),
        (ConsoleArguments(token_file=Path("/none")), "--token-file"),
    ],
)
def test_bad_values_are_refused_by_name(asked: ConsoleArguments, names: str) -> None:
    with pytest.raises(InvalidInput, match=names):
        options_of(asked)


def test_a_trusted_network_may_be_said() -> None:
    assert options_of(ConsoleArguments(listen="0.0.0.0:1", insecure=True)).listen.port == 1


def test_the_link_carries_the_token() -> None:
    assert link("http://127.0.0.1:1", "a-b_c") == "http://127.0.0.1:1/login?token=a-b_c"


def access(source: str) -> Access:
    return Access("https://api:6443", FixedCredential(Credential("")), source=source)


def test_a_pod_prints_no_link_into_its_log() -> None:
    """Who may read logs may not thereby log in."""
    options = options_of(ConsoleArguments(kubernetes_login=True))
    assert options.login is not None
    keep_link_out_of_logs(options, access("a-kubeconfig"))
    token = options.login.token
    assert token
    keep_link_out_of_logs(options, access(str(SERVICE_ACCOUNT)))
    assert options.login.token == ""
    assert not options.login.use(token)
    assert not options.login.use("")
    with pytest.raises(InvalidInput, match="one of them in a pod"):
        keep_link_out_of_logs(options_of(ConsoleArguments()), access(str(SERVICE_ACCOUNT)))


def test_a_link_of_a_file_is_accepted_in_a_pod(tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("a-token-of-one-viewer\n")
    options = options_of(ConsoleArguments(login_file=file))
    assert options.login is not None
    keep_link_out_of_logs(options, access(str(SERVICE_ACCOUNT)))
    assert options.login.use("a-token-of-one-viewer")
