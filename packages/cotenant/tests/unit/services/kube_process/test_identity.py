"""An identity is used by one process at a time, and by its successor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cotenant.services.kube_process import identity
from cotenant.services.kube_process.identity import kept_identity

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
