"""What a page that is still open, or a link that somebody kept, needs after a restart of `up`."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from tests.fakes.servers.ports import free_port

from cotenant_local.up.console import Console


def _console(directory: Path, port: int = 0) -> Console:
    return Console(directory, directory / "kubeconfig", port, "text")


def _files(console: Console) -> dict[str, str]:
    words = console.child().arguments
    return {word: words[at + 1] for at, word in enumerate(words) if word.endswith("-file")}


def test_the_port_the_token_and_the_sessions_are_those_of_the_last_run(tmp_path: Path) -> None:
    before = _console(tmp_path, free_port())
    token = (tmp_path / "console-token").read_text()
    after = _console(tmp_path)
    assert after.port == before.port
    assert after.child().port == before.port
    assert (tmp_path / "console-token").read_text() == token
    assert _files(after) == _files(before)
    assert _files(after)["--session-file"] == str(tmp_path / "console-sessions")


def test_a_link_works_for_one_run(tmp_path: Path) -> None:
    before, after = _console(tmp_path, free_port()).link, _console(tmp_path).link
    assert urlsplit(before).query != urlsplit(after).query


def test_a_port_that_another_has_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    before = _console(tmp_path, free_port())
    with socket.create_server(("127.0.0.1", before.port)):
        after = _console(tmp_path)
    assert after.port != before.port
    assert int((tmp_path / "console-port").read_text()) == after.port
