"""Which package of Debian's archive has the kernel of a version, what is kept of it, and what is said without the
archive; apt itself is not run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cotenant.drivers.qemu import kernel_archive
from cotenant.drivers.qemu.kernel_archive import (
    SERIES,
    archive_kernels,
    has_sched_ext,
    kept_archive_kernel,
    newest_of,
)
from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel, folder_of, keep
from cotenant.model.errors import InvalidInput

PACKAGES = [
    "linux-image-6.12.43+deb12-cloud-amd64",
    "linux-image-6.12.117+deb13-cloud-amd64",
    "linux-image-6.12.90+deb12.1-cloud-amd64",
    "linux-image-6.12.118+deb13-amd64",
    "linux-image-6.12.118+deb13-cloud-amd64-dbg",
    "linux-image-7.2.12+deb13-cloud-amd64",
    "linux-binary-7.2.12+deb13-cloud-amd64",
    "linux-binary-7.2.9+deb13-cloud-amd64",
    "linux-binary-7.2.13+deb14-cloud-amd64",
    "linux-image-cloud-amd64",
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("version", "package"),
    [
        ("6.12", "linux-image-6.12.117+deb13-cloud-amd64"),
        ("6.12.43", "linux-image-6.12.43+deb12-cloud-amd64"),
        ("6.12.90", "linux-image-6.12.90+deb12.1-cloud-amd64"),
        ("7.2", "linux-binary-7.2.13+deb14-cloud-amd64"),
        ("7.2.12", "linux-binary-7.2.12+deb13-cloud-amd64"),
    ],
)
def test_the_newest_kernel_of_a_version_is_taken_from_the_package_that_has_its_image(
    version: str, package: str
) -> None:
    assert newest_of(version, PACKAGES) == (package, package.split("-", 2)[2])


@pytest.mark.parametrize("version", ["6.1", "6.12.11", "6.13", "7.2.1"])
def test_a_version_is_whole_numbers(version: str) -> None:
    assert newest_of(version, PACKAGES) is None


def put(version: str, image: bytes = b"\x7fELF") -> None:
    keep(folder_of(f"zone-guest-linux-{version}") / f"{version}.3+deb13-cloud-amd64", {"vmlinux": image})


def test_what_is_kept_is_not_fetched_and_says_whether_it_has_sched_ext(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_archive, "_fetch", lambda versions: pytest.fail(f"fetched {versions}"))
    put("6.12")
    put("6.18", b"\x7fELF\0sched_ext_ops\0")
    found = archive_kernels(["6.18", "6.12"])
    assert [(version, kernel.version, has_sched_ext(kernel)) for version, kernel in found.items()] == [
        ("6.18", "6.18.3+deb13-cloud-amd64", True),
        ("6.12", "6.12.3+deb13-cloud-amd64", False),
    ]


def test_those_that_are_absent_are_fetched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def fetch(versions: list[str]) -> None:
        asked.append(versions)
        put("6.16")

    monkeypatch.setattr(kernel_archive, "_fetch", fetch)
    put("6.18")
    with pytest.raises(GuestUnavailable, match=r"no whole kernel of Linux 7\.3 was kept"):
        archive_kernels(["6.16", "6.18", "7.3"])
    assert asked == [["6.16", "7.3"]]
    assert isinstance(kept_archive_kernel("6.16"), Kernel)


def test_without_the_archive_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def command(*words: str, timeout_s: float = 0) -> str:
        raise GuestUnavailable("apt-get update: Could not resolve 'mirror.test'")

    monkeypatch.setattr(kernel_archive, "command", command)
    monkeypatch.setattr(kernel_archive, "debian_mirror", lambda: "mirror")
    monkeypatch.setattr(kernel_archive.shutil, "which", lambda name: f"/bin/{name}")
    with pytest.raises(GuestUnavailable, match=r"no kernel of Linux 6\.16, 6\.17 is kept, and Debian's archive cannot"):
        archive_kernels(["6.16", "6.17"])


@pytest.mark.parametrize("version", ["", "6", "all", "6.12.1.1", "../6.12", "6.x"])
def test_what_is_no_version_is_refused(version: str) -> None:
    with pytest.raises(InvalidInput, match="the beginning of a version"):
        kept_archive_kernel(version)


def test_the_series_are_versions_in_order() -> None:
    assert [kept_archive_kernel(version) for version in SERIES] == [None] * len(SERIES)
    assert sorted(SERIES, key=lambda version: [int(part) for part in version.split(".")]) == list(SERIES)
