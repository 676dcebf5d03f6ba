from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.services.clients.traces_address import URL_FILE
from cotenant.services.traces.finding import written_url


def test_the_one_beside_the_kubeconfig_goes_before_that_of_the_usual_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("mine", "usual", "empty"):
        (tmp_path / name).mkdir()
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert written_url(tmp_path / "usual") == ""
    (tmp_path / "usual" / URL_FILE).write_text("http://usual\n")
    (tmp_path / "mine" / URL_FILE).write_text("http://mine\n")
    assert written_url(tmp_path / "usual") == "http://usual"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'empty' / 'config'}:{tmp_path / 'mine' / 'kubeconfig'}")
    assert written_url(tmp_path / "usual") == "http://mine"
