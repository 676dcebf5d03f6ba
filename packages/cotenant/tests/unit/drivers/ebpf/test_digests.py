"""Objects are loaded only where they are those of the sums beside them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from cotenant.drivers.ebpf.digests import SUMS, check_digest
from cotenant.model.errors import Permanent


def test_an_object_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "zone_latency.bpf.o"
    path.write_bytes(b"object")
    digest = hashlib.sha256(b"object").hexdigest()
    (tmp_path / SUMS).write_text(f"{'0' * 64}  other.bpf.o\n{digest}  {path.name}\n")
    check_digest(path, tmp_path / "nowhere")
    path.write_bytes(b"another")
    with pytest.raises(Permanent, match="not the object that was built with this package"):
        check_digest(path, tmp_path / "nowhere")
    (tmp_path / SUMS).write_text("")
    with pytest.raises(Permanent, match="not the object"):
        check_digest(path, tmp_path / "nowhere")


def test_an_installation_without_sums_loads_nothing_and_a_checkout_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "zone_latency.bpf.o"
    check_digest(path, tmp_path)  # absent: the loader says how to get it
    path.write_bytes(b"object")
    with pytest.raises(Permanent, match="without its digest"):
        check_digest(path, tmp_path / "nowhere")
    (tmp_path / "bpf").mkdir()
    check_digest(path, tmp_path)
