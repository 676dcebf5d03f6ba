"""An identity is used by one process at a time, and by its successor."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.model.errors import InvalidInput
from cotenant.services.kube_process import identity
from cotenant.services.kube_process.identity import (
    check_lease_namespace,
    identity_folder,
    kept_identity,
    lease_name,
    replica_identity,
    state_folder,
)

ASK = """
import sys, pathlib, time
from cotenant.services.kube_process.identity import kept_identity
print(kept_identity(pathlib.Path(sys.argv[1]), "https://a", "default", "x"), flush=True)
time.sleep(60)
"""


def another(folder: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([sys.executable, "-c", ASK, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_a_successor_of_a_killed_process_has_its_identity_and_a_second_replica_another(tmp_path: Path) -> None:
    first, name = another(tmp_path)
    second, other = another(tmp_path)
    try:
        assert name != other
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        third, again = another(tmp_path)
        third.kill()
        third.wait()
        assert again == name
    finally:
        for popen in (first, second):
            popen.kill()
            popen.wait()


def test_clusters_namespaces_and_leases_have_identities_of_their_own(tmp_path: Path) -> None:
    asked = [("https://a", "n", "x"), ("https://b", "n", "x"), ("https://a", "m", "x"), ("https://a", "n", "y")]
    found = [kept_identity(tmp_path, *entry) for entry in asked]
    assert len(set(found)) == len(found)
    assert kept_identity(tmp_path, *asked[0]) not in found  # this process itself counts as another one


def test_a_damaged_file_gets_a_new_token_and_a_folder_that_cannot_be_used_none(tmp_path: Path) -> None:
    kept_identity(tmp_path, "a", "n", "x")
    (file,) = tmp_path.iterdir()
    for descriptor in identity._held:
        os.close(descriptor)
    identity._held.clear()
    file.write_bytes(b"\xff broken")
    name = kept_identity(tmp_path, "a", "n", "x")
    assert len(file.read_text()) == 16
    assert name.endswith(file.read_text())
    (tmp_path / "file").touch()
    assert f"-{os.getpid()}-" in kept_identity(tmp_path / "file", "a", "n", "x")


def test_a_folder_of_state_is_the_units_the_users_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b")
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert state_folder() == Path("/var/lib/a")
    monkeypatch.setenv("STATE_DIRECTORY", "")
    assert state_folder() == Path("/x/cotenant")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))
    assert state_folder() == Path("/home/ada/.local/state/cotenant")

    def nobody() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", nobody)
    assert state_folder() is None


def test_the_option_names_the_folder_and_an_empty_one_keeps_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "own"))
    assert identity_folder(None) == tmp_path / "own"
    assert identity_folder("") is None
    assert identity_folder("/x") == Path("/x")
    assert f"-{os.getpid()}-" in replica_identity("", "a", "n", "x")
    assert list(tmp_path.iterdir()) == []
    kept = replica_identity(str(tmp_path / "given"), "a", "n", "x")
    (file,) = (tmp_path / "given").iterdir()
    assert kept.endswith(file.read_text())
    assert stat.S_IMODE((tmp_path / "given").stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["", "a", "kube-system", "a" * 63, "0-9"])
def test_a_namespace_for_leases(name: str) -> None:
    check_lease_namespace(name)


@pytest.mark.parametrize("name", ["A", "-a", "a-", "a.b", "a" * 64, " "])
def test_no_namespace_for_leases(name: str) -> None:
    with pytest.raises(InvalidInput, match="--lease-namespace"):
        check_lease_namespace(name)


def test_every_scheduler_of_a_name_has_one_lease() -> None:
    assert lease_name("cotenant") == "cotenant-scheduler"
