"""The plan of a kernel that is built, and what is refused before anything is fetched; the build itself takes too
long.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from cotenant.drivers.qemu import kernel_build, kernel_source
from cotenant.drivers.qemu.kernel_build import (
    BuildStep,
    build_plan,
    built_kernel,
    built_ticks,
    missing_packages,
    zone_kernels_with,
)
from cotenant.drivers.qemu.kernel_config import OPTIONS, fragment, left_out
from cotenant.drivers.qemu.packages import GuestUnavailable, keep
from cotenant.model.errors import InvalidInput


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    return tmp_path


def silent(line: str) -> None:
    pytest.fail(f"nothing is to be done, but: {line}")


def test_two_kernels_differ_in_their_ticks_and_their_name_only() -> None:
    slow, fast = (set(fragment(hz).splitlines()) for hz in (250, 1000))
    assert slow ^ fast == {
        "CONFIG_HZ_250=y",
        "CONFIG_HZ_1000=y",
        'CONFIG_LOCALVERSION="-cotenant-250"',
        'CONFIG_LOCALVERSION="-cotenant-1000"',
    }
    assert len(set(OPTIONS)) == len(OPTIONS)
    assert {"CONFIG_SCHED_CLASS_EXT=y", "CONFIG_VIRTIO_FS=y", "CONFIG_PREEMPT_DYNAMIC=y", "CONFIG_PSI=y"} <= slow


def test_the_plan_configures_builds_and_strips(tmp_path: Path) -> None:
    source, objects = tmp_path / "linux-source-7.3", tmp_path / "objects"
    configure, build, strip = build_plan(1000, source, objects, "/a/pahole", 2)
    make = ("make", "-s", "-C", str(source), f"O={objects}", "PAHOLE=/a/pahole")
    assert configure.words == (*make, f"KCONFIG_ALLCONFIG={objects}/fragment", "allnoconfig")
    assert build.words == (*make, "-j2", "vmlinux")
    assert build.says == "builds with 1000 ticks a second"
    assert strip.words == ("strip", "-g", "-o", f"{objects}/image", f"{objects}/vmlinux")


def test_options_that_a_source_does_not_take_are_named() -> None:
    wanted = "CONFIG_SMP=y\nCONFIG_NEW=y\n"
    assert left_out(wanted, "# CONFIG_NEW is not set\nCONFIG_SMP=y\n") == ("CONFIG_NEW=y",)
    assert left_out(fragment(250), fragment(250)) == ()


def test_what_a_build_needs_is_named_by_its_packages(tmp_path: Path) -> None:
    (tmp_path / "libelf.h").touch()
    lacking = missing_packages(lambda tool: None if tool in ("gcc", "bc") else f"/bin/{tool}", (tmp_path,))
    assert lacking == ("gcc", "bc", "libssl-dev")
    nested = tmp_path / "x86_64-linux-gnu" / "openssl"
    nested.mkdir(parents=True)
    (nested / "ssl.h").touch()
    assert missing_packages(lambda tool: tool, (tmp_path,)) == ()


def test_a_machine_without_a_compiler_or_room_is_refused_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_build, "fetched", lambda place, say, version: pytest.fail("fetched"))
    monkeypatch.setattr(kernel_build, "missing_packages", lambda: ("flex", "bison"))
    with pytest.raises(GuestUnavailable, match=r"needs flex, bison \(apt-get install\)"):
        zone_kernels_with((1000,), 1, silent)
    monkeypatch.setattr(kernel_build, "missing_packages", tuple)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=2 << 30))
    with pytest.raises(GuestUnavailable, match=r"needs 6 GiB of disk in .*, which has 2 GiB: set COTENANT_CACHE"):
        zone_kernels_with((1000,), 1, silent)


def test_a_suite_without_the_source_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_source, "debian_mirror", lambda: "file:/mirror")
    monkeypatch.setattr(kernel_source, "pahole_version", lambda: 130)
    monkeypatch.setattr(kernel_source, "command", lambda *words, **how: "")
    with pytest.raises(GuestUnavailable, match="trixie-backports has no linux-source"):
        kernel_source.fetched(tmp_path, silent)


def test_what_was_built_is_kept_and_used_again(cache: Path) -> None:
    assert built_kernel(1000) is None
    assert built_ticks() == ()
    keep(cache / "zone-guest-hz1000" / "7.3.4-cotenant-1000", {"vmlinux": b"\x7fELF"})
    (found,) = zone_kernels_with((1000,), 1, silent)
    assert (found.version, found.modules) == ("7.3.4-cotenant-1000", ())
    assert built_ticks() == (1000,)


class Builds:
    """Stands for the source and its compiler; `fails_at`: the ticks whose compiler fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails_at: int = 0) -> None:
        self.fetches, self.fails_at, self.built = 0, fails_at, list[str]()
        monkeypatch.setattr(kernel_build, "missing_packages", tuple)
        monkeypatch.setattr(kernel_build, "fetched", self.fetched)
        monkeypatch.setattr(kernel_build, "_run", self.run)

    def fetched(self, place: Path, say: Callable[[str], None], version: str) -> tuple[Path, str]:
        self.fetches += 1
        (place / "linux-source-7.3").mkdir()
        return place / "linux-source-7.3", "pahole"

    def run(self, step: BuildStep, say: Callable[[str], None]) -> None:
        objects = Path(next(word for word in step.words if "objects" in word).partition("=")[2] or ".")
        match step.says.split()[0]:
            case "configures":
                (objects / ".config").write_text((objects / "fragment").read_text())
            case "builds":
                hz = step.says.split()[2]
                self.built.append(f"{hz} in {objects.parent.name}")
                if int(hz) == self.fails_at:
                    raise GuestUnavailable("make: out of memory")
                (objects / "include/config").mkdir(parents=True, exist_ok=True)
                (objects / "include/config/kernel.release").write_text(f"7.3.4-cotenant-{hz}\n")
            case "removes":
                Path(step.words[3]).write_bytes(b"\x7fELF")


def test_kernels_asked_for_together_are_built_in_one_tree_of_one_source(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = Builds(monkeypatch)
    found = zone_kernels_with((1000, 250, 1000), 2, lambda line: None)
    assert [kernel.version for kernel in found] == [f"7.3.4-cotenant-{hz}" for hz in (1000, 250, 1000)]
    assert builds.fetches == 1
    assert builds.built == ["1000 in zone-guest-build", "250 in zone-guest-build"]
    assert not (cache / "zone-guest-build").exists()
    assert built_ticks() == (250, 1000)


def test_an_interrupted_build_goes_on_in_its_tree(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builds, said = Builds(monkeypatch, fails_at=250), list[str]()
    with pytest.raises(GuestUnavailable, match="out of memory"):
        zone_kernels_with((1000, 250), 2, said.append)
    assert built_ticks() == (1000,)
    assert (cache / "zone-guest-build/linux-source-7.3").is_dir()
    builds.fails_at = 0
    zone_kernels_with((1000, 250), 2, said.append)
    assert said == [f"goes on with linux-source-7.3 in {cache / 'zone-guest-build'}"]
    assert builds.fetches == 1
    assert [built.split()[0] for built in builds.built] == ["1000", "250", "250"]
    assert built_ticks() == (250, 1000)
    # a source that was not whole is fetched anew
    (cache / "zone-guest-build/linux-source-7.3").mkdir(parents=True)
    zone_kernels_with((300,), 2, said.append)
    assert builds.fetches == 2


def test_two_commands_do_not_build_in_one_tree(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Builds(monkeypatch)
    with (cache / ".zone-guest-build.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(GuestUnavailable, match="another command builds a kernel in"):
            zone_kernels_with((250,), 2, silent)


def test_a_kernel_of_another_version_has_its_own_place_and_the_preemption_that_its_source_knows(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds, asked = Builds(monkeypatch), list[str]()
    of_builds = builds.fetched

    def fetched(place: Path, say: Callable[[str], None], version: str) -> tuple[Path, str]:
        asked.append(version)
        return of_builds(place, say, version)

    monkeypatch.setattr(kernel_build, "fetched", fetched)
    zone_kernels_with((250,), 2, lambda line: None, "6.12")
    assert asked == ["6.12"]
    assert builds.built == ["250 in zone-guest-build-6.12"]
    assert built_kernel(250) is None
    assert built_kernel(250, "6.12") is not None
    assert set(fragment(250, "6.12").splitlines()) ^ set(fragment(250).splitlines()) == {
        "CONFIG_PREEMPT=y",
        "CONFIG_SCHED_DEBUG=y",
        "CONFIG_PREEMPT_LAZY=y",
    }
    with pytest.raises(InvalidInput, match="a version whose source Debian has"):
        zone_kernels_with((250,), 2, silent, "6.12.117")


def test_the_source_of_a_version_is_looked_for_in_every_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_source, "debian_mirror", lambda: "file:/mirror")
    monkeypatch.setattr(kernel_source, "pahole_version", lambda: 130)
    monkeypatch.setattr(kernel_source, "command", lambda *words, **how: "linux-source-6.12\nlinux-source\n")
    with pytest.raises(GuestUnavailable, match=r"bookworm-backports, trixie, sid have no linux-source-6\.13"):
        kernel_source.fetched(tmp_path, silent, "6.13")


@pytest.mark.parametrize(("hz", "jobs", "field"), [(200, 1, "hz"), (0, 1, "hz"), (250, 0, "jobs")])
def test_other_ticks_than_a_kernel_can_have_are_refused(hz: int, jobs: int, field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        zone_kernels_with((hz,), jobs, silent)
