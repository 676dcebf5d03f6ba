"""Input that `cotenant up` rejects gives one line that names the option, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.running import Client, Up
from tests.fakes.servers.ports import free_port

from cotenant.cli.main import main

BAD_INPUT, FAILED = 2, 1


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up(tmp_path_factory.mktemp("held") / "up", "--bare") as up:
        up.ready()
        yield up


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The only line that `cotenant up` says of its options."""

    def up(*options: object) -> str:
        status = main(["up", *map(str, options)])
        said = capfd.readouterr().err
        assert status == BAD_INPUT, said
        assert said.count("\n") == 1, said
        assert said.startswith("cotenant: ")
        return said

    return up


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--ephemeral",)])
def test_a_held_directory(held: Up, more: tuple[str, ...], refused: Callable[..., str]) -> None:
    before = {name: (held.directory / name).read_bytes() for name in ("kubeconfig", "port", "token", "holder.json")}
    said = refused("--dir", held.directory, "--bare", *more)
    since = json.loads(before["holder.json"])["since"]
    assert f"process {held.pid} since {since}" in said
    assert said.startswith("cotenant: --dir: ")
    assert {name: (held.directory / name).read_bytes() for name in before} == before
    assert Client(held.kubeconfig).get("/api/v1/namespaces")["items"]


def test_a_busy_port(tmp_path: Path, refused: Callable[..., str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused("--dir", tmp_path / "up", "--bare", "--port", port)
    assert (
        said
        == f"cotenant: --port: {port}: expected a free port; Address already in use: stop the process that uses it, "
        "or choose another\n"
    )


@pytest.mark.slow
def test_the_last_port_is_used_again_unless_another_has_it(tmp_path: Path) -> None:
    with Up(tmp_path / "up", "--bare", "--port", free_port()) as up:
        first = up.ready().url
    with Up(tmp_path / "up", "--bare") as up:
        assert up.ready().url == first
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", int(first.rpartition(":")[2])))
        taken.listen()
        with Up(tmp_path / "up", "--bare") as up:
            api = up.ready()
            assert api.url != first
            assert api.get("/api/v1/namespaces")["items"]


@pytest.mark.parametrize(
    ("option", "value", "more"),
    [
        ("--nodes", "-1", ()),
        ("--nodes", "20001", ()),
        ("--nodes", "many", ()),
        ("--port", "65536", ()),
        ("--speed", "0", ()),
        ("--speed", "nan", ()),
        ("--seed", "-1", ()),
        ("--node-grace-s", "0", ()),
        ("--node-grace-s", "nan", ()),
        ("--profile", "nobody", ()),
        ("--workload", "nobody", ("--nodes", "3")),
        ("--workload", "colocation", ()),
        ("--host", "nobody.invalid", ("--bare",)),
        ("--host", "192.0.2.1", ("--bare",)),
        ("--bare", "", ("--nodes", "3")),
    ],
)
def test_a_bad_option(
    option: str, value: str, more: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["up", "--dir", str(tmp_path / "up"), option, *([value] if value else []), *more])
    captured = capsys.readouterr()
    assert status == BAD_INPUT
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert option in captured.err
    assert value in captured.err


def test_a_file_in_the_directory_s_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for where in (file, file / "below"):
        assert main(["up", "--dir", str(where), "--bare"]) == BAD_INPUT
        said = capsys.readouterr().err
        assert said.startswith("cotenant: --dir: ")  # a long path is shortened
        assert "expected a directory that can be written to" in said
        assert said.count("\n") == 1
    assert file.read_text() == "mine"


def test_a_read_only_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if os.geteuid() == 0:  # root may write everywhere except in sysfs
        where = Path("/sys/cotenant")
    else:
        where = tmp_path / "up"
        where.mkdir(mode=0o500)
    assert main(["up", "--dir", str(where), "--bare"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("cotenant: --dir: ")  # a long path is shortened
    assert "expected a directory that can be written to" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("damage", ["not a database", "cut short"])
def test_a_damaged_database(tmp_path: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    from cotenant_local.apiserver.storage.sqlite import Database

    database = Database(tmp_path / "up")
    database.commit([(i, "/configmaps", "n", f"c{i}", i, b"x" * 5000) for i in range(1, 50)], [], 50)
    database.close()
    file = tmp_path / "up" / "cluster.db"
    whole = file.read_bytes()
    file.write_bytes(b"nothing of use" * 1000 if damage == "not a database" else whole[: len(whole) // 3])
    broken = file.read_bytes()
    assert main(["up", "--dir", str(tmp_path / "up"), "--bare"]) == FAILED
    said = capsys.readouterr().err
    assert str(file) in said
    assert "restore it from a copy" in said
    assert said.count("\n") == 1
    assert file.read_bytes() == broken  # the damaged file is not modified


@pytest.mark.parametrize("content", [b"", b"short\n", b"two words of a token", b"\xff" * 32])
def test_a_broken_token_file(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "up").mkdir()
    (tmp_path / "up" / "token").write_bytes(content)
    assert main(["up", "--dir", str(tmp_path / "up"), "--bare"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("cotenant: token file: ")
    assert "delete the file to have a new token made" in said
    assert said.count("\n") == 1


def test_a_broken_certificate_authority(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "up" / "tls").mkdir(parents=True)
    for name in ("ca.crt", "ca.key"):
        (tmp_path / "up" / "tls" / name).write_text("broken")
    assert main(["up", "--dir", str(tmp_path / "up"), "--bare"]) == BAD_INPUT
    said = capsys.readouterr().err
    assert said.startswith("cotenant: certificate authority: ")
    assert "to have new certificates made" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("name", ["tls/server.key", "port", "kubeconfig", "token"])
def test_a_file_of_the_cluster_that_is_a_folder(tmp_path: Path, name: str, refused: Callable[..., str]) -> None:
    (tmp_path / "up" / name).mkdir(parents=True)
    assert name in refused("--dir", tmp_path / "up", "--bare")
