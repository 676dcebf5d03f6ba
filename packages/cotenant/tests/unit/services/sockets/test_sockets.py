"""Who may connect to a socket, and that no other file or process loses its place."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import stat
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput, Permanent
from cotenant.services.sockets.peers import Peers, RefusalLog, credentials, peers_of
from cotenant.services.sockets.unix_socket import listening_socket

NOBODY = pwd.getpwnam("nobody")
UNKNOWN = 4_000_111  # no user has this number


@pytest.mark.parametrize(
    ("peers", "user", "group", "may"),
    [
        (Peers(), 0, 5, True),
        (Peers(), os.geteuid(), 5, True),
        (Peers(), UNKNOWN, 5, False),
        (Peers(own=False), 0, 5, False),
        (Peers(own=False, users=frozenset({UNKNOWN})), UNKNOWN, 5, True),
        (Peers(own=False, groups=frozenset({5})), UNKNOWN, 5, True),
        (Peers(own=False, groups=frozenset({5})), UNKNOWN, 6, False),
    ],
)
def test_a_peer_is_judged_by_its_user_or_its_group(peers: Peers, user: int, group: int, may: bool) -> None:
    assert peers.allows(user, group) is may


def test_users_are_found_by_name_and_number() -> None:
    by_name = peers_of(["nobody"], [])
    assert by_name == peers_of([str(NOBODY.pw_uid)], [])
    assert by_name == Peers(frozenset({NOBODY.pw_uid}), frozenset(), socket_group=NOBODY.pw_gid)
    assert peers_of([], []) == Peers()
    assert peers_of([str(UNKNOWN)], []) == Peers(frozenset({UNKNOWN}), frozenset(), socket_group=UNKNOWN)
    with pytest.raises(InvalidInput, match=r"--allow-user.*no-such-user"):
        peers_of(["no-such-user"], [])


def test_a_socket_has_one_group_and_which_must_be_clear() -> None:
    assert peers_of([], [7]) == Peers(groups=frozenset({7}), socket_group=7)
    assert peers_of([], [7], 9).socket_group == 9
    assert peers_of([], [7, 8], 0).socket_group == 0
    for users, groups in (([], [7, 8]), (["nobody"], [NOBODY.pw_gid + 1])):
        with pytest.raises(InvalidInput, match=r"--socket-group.*their own are \d+, \d+"):
            peers_of(users, groups)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_and_one_group_reach_it(tmp_path: Path) -> None:
    path = tmp_path / "below" / "a.sock"
    with listening_socket(path, None):
        assert mode(path) == 0o600
    own = os.getegid()
    with listening_socket(tmp_path / "b.sock", own):
        assert mode(tmp_path / "b.sock") == 0o660
        assert (tmp_path / "b.sock").stat().st_gid == own
    before = os.umask(0o022)
    os.umask(before)
    with listening_socket(tmp_path / "c.sock", None):
        after = os.umask(before)
    assert after == before


def test_a_socket_that_nobody_listens_on_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.sock"
    listening_socket(path, None).close()
    assert path.exists()
    with listening_socket(path, None) as bound:
        bound.listen()
        with pytest.raises(Permanent, match="another process listens at"):
            listening_socket(path, None)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))  # it was left in its place


def test_another_file_is_never_removed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("kept")
    with pytest.raises(Permanent, match="is not a socket"):
        listening_socket(path, None)
    assert path.read_text() == "kept"
    with pytest.raises(InvalidInput, match="--socket"):
        listening_socket(path / "below", None)
    with pytest.raises(InvalidInput, match="--socket"):
        listening_socket(tmp_path / ("long" * 40), None)


def test_the_kernel_says_who_connects(tmp_path: Path) -> None:
    async def play() -> tuple[int, int, int]:
        found: asyncio.Future[tuple[int, int, int]] = asyncio.get_running_loop().create_future()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            found.set_result(credentials(writer))
            writer.close()

        server = await asyncio.start_unix_server(connected, tmp_path / "s")
        _, writer = await asyncio.open_unix_connection(tmp_path / "s")
        try:
            return await found
        finally:
            writer.close()
            server.close()

    assert asyncio.run(play()) == (os.getpid(), os.geteuid(), os.getegid())


def test_refusals_are_one_line_an_interval_and_kind(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog(10.0)
    for now_s in (0.0, 1.0, 9.9):
        log.refused("user", "user 7 was refused", now_s)
    log.refused("version", "version 3 was refused", 5.0)
    log.refused("user", "user 8 was refused", 10.0)
    log.refused("user", "user 9 was refused", 25.0)
    assert [record.getMessage() for record in caplog.records] == [
        "user 7 was refused",
        "version 3 was refused",
        "user 8 was refused (2 more were refused before)",
        "user 9 was refused",
    ]
