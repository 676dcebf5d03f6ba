"""What the scheduler's command refuses before anything slow starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.cli.main import main

KUBECONFIG = (
    "{clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], contexts: [{name: c, context: "
    "{cluster: c}}], current-context: c}"
)


@pytest.mark.parametrize("option", ["--report-token-file", "--debug-token-file"])
@pytest.mark.parametrize("content", [None, "", "short"])
def test_a_token_file_that_cannot_be_used_is_one_line_that_names_it(
    option: str, content: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kubeconfig, token = tmp_path / "kubeconfig", tmp_path / "token"
    kubeconfig.write_text(KUBECONFIG)
    if content is not None:
        token.write_text(content)
    command = ["scheduler", "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0", "--log-level", "error"]
    assert main([*command, option, str(token)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"cotenant: {option}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("listen", ["", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:65536", "unix:/run/a.sock", "unix:a"])
def test_an_address_that_is_none(listen: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scheduler", "--kubeconfig", str(tmp_path / "absent"), "--listen", listen]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cotenant: --listen: ")
    assert said.count("\n") == 1
