"""A kernel with another tick: what it is asked to have, what it is built with, and that a kept one is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.qemu.kernel_build import TICKS, build_kernel, built_kernel, configuration, lacking, left_out
from cotenant.drivers.qemu.packages import GuestUnavailable, folder_of, keep
from cotenant.model.errors import InvalidInput


@pytest.mark.parametrize("hz", TICKS)
def test_configurations_differ_in_the_tick_only(hz: int) -> None:
    lines = configuration(hz).splitlines()
    assert f"CONFIG_HZ_{hz}=y" in lines
    assert f"CONFIG_HZ={hz}" in lines
    assert {line for line in lines if "HZ_" not in line and "CONFIG_HZ=" not in line} == {
        line for line in configuration(TICKS[0]).splitlines() if "HZ_" not in line and "CONFIG_HZ=" not in line
    }
    assert len(set(lines)) == len(lines)
    # what a zone's guest loads as modules of a fetched kernel is built in
    assert {f"CONFIG_{name}=y" for name in ("VIRTIO_NET", "OVERLAY_FS", "VIRTIO_FS", "SCHED_CLASS_EXT")} <= set(lines)


def test_options_that_a_source_does_not_take_are_named() -> None:
    asked = "CONFIG_A=y\nCONFIG_HZ=1000\n"
    assert left_out(asked, "# CONFIG_A is not set\nCONFIG_HZ=1000\n") == ["CONFIG_A=y"]
    assert left_out(asked, f"#\n{asked}CONFIG_B=y\n") == []


def test_a_kept_kernel_is_used_and_one_that_was_changed_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    assert built_kernel(1000) is None
    keep(folder_of("zone-guest-hz1000") / "7.3.4-cotenant", {"vmlinux": b"kernel"})
    assert build_kernel(1000) == built_kernel(1000)
    found = build_kernel(1000)
    assert (found.version, found.modules) == ("7.3.4-cotenant", ())
    assert built_kernel(250) is None
    found.image.write_bytes(b"another")
    assert built_kernel(1000) is None


def test_a_machine_without_a_compiler_says_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    tools = ["gcc", "make", "flex", "bison", "bc", "dwarves", "xz-utils", "binutils"]
    assert lacking(tmp_path) == tools
    assert lacking(tmp_path / "gelf.h") == [*tools, "libelf-dev"]
    with pytest.raises(GuestUnavailable, match="not installed: gcc, make, flex"):
        build_kernel(250)


@pytest.mark.parametrize("hz", [0, 60, -250])
def test_another_tick_is_refused(hz: int) -> None:
    with pytest.raises(InvalidInput, match="one of 100, 250, 300, 1000"):
        built_kernel(hz)
