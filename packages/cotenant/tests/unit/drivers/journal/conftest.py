"""Databases of the journal: SQLite, and a PostgreSQL server where Debian's package is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.waiting import patience

pytest.importorskip("sqlalchemy", reason="the extra `credit` is not installed")


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    which = shutil.which("initdb")
    return Path(which).parent if which else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The socket folder of a server of our own, without a TCP port."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="pg"))  # not in pytest's folder, which is closed to the server's user
    options: dict[str, object] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        import pwd

        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        os.chown(folder, account.pw_uid, account.pw_gid)
        options = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}

    def call(*command: str) -> None:
        subprocess.run(command, check=True, capture_output=True, cwd=folder, timeout=patience(120), **options)  # type: ignore[call-overload]

    data = str(folder / "data")
    call(
        str(programs / "initdb"), "-D", data, "-U", "cotenant", "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale"
    )
    call(
        str(programs / "pg_ctl"),
        "-D",
        data,
        "-w",
        "-l",
        str(folder / "log"),
        "-o",
        f"-k {folder} -h '' -c fsync=off",
        "start",
    )
    try:
        yield str(folder)
    finally:
        call(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'credit.db'}"
    return _empty_database(request.getfixturevalue("postgres_server"))


def _empty_database(folder: str) -> str:
    import psycopg

    name = f"t{os.urandom(6).hex()}"
    with psycopg.connect(host=folder, user="cotenant", dbname="postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type, unused-ignore]
    return f"postgresql://cotenant@/{name}?host={folder}"
