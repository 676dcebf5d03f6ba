"""Which schedulers behave on which kernel, from what guests told; the guests themselves are in tests/node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cotenant.drivers.qemu.packages import GuestUnavailable, Kernel, folder_of, keep
from cotenant.model.errors import InvalidInput, Permanent, Unsupported
from cotenant.model.json_object import JsonObject
from cotenant.model.zones.setting import ZoneMode
from cotenant_lab.experiments import page, registry
from cotenant_lab.experiments.site import kernels_of_series
from cotenant_lab.experiments.site.kernel_guest import GuestRun
from cotenant_lab.experiments.site.kernels_of_series import kernels_of
from cotenant_lab.experiments.studies.scheduler_kernels import CLAIMS, KernelTrial, judged, measure
from cotenant_lab.experiments.studies.scheduler_trials import CLAIMS as CASES
from cotenant_lab.experiments.studies.scheduler_trials import FIGURES

OLD = "a scheduler for one cgroup is not supported here: it needs Linux 7.3 or later (this is 6.18.15)"
BROKEN = "eBPF is not supported here: it needs a kernel ... of Linux 7.1.3 to 7.2.12 have broken type information"


def behaves(mode: ZoneMode = ZoneMode.LATENCY, back_end: str = "root") -> JsonObject:
    return {
        "scheduler": mode.value,
        "back_end": back_end,
        "refused": "",
        "claim": CLAIMS[mode][1],
        "bound": {"service": 0.05, "batch": 1.01, "unlisted": 0.05},
        "ejected": {
            "after_s": 5.2,
            "reason": "runnable task stall",
            "message": "x failed to run",
            "starved_then_s": 0.3,
            "left": None,
        },
    }


def refused(why: str, back_end: str = "sub") -> JsonObject:
    return {"scheduler": "latency", "back_end": back_end, "refused": why}


def told(*schedulers: JsonObject, stalls: str = "") -> JsonObject:
    return {"probes": {"runqueue": "", "stalls": stalls}, "schedulers": list(schedulers)}


def failed(kernel: str, *schedulers: JsonObject, stalls: str = "") -> list[str]:
    """The notes on what fails on this kernel."""
    found = judged([KernelTrial(kernel, "", told(*schedulers, stalls=stalls))])
    (check,) = found.checks
    notes = [note.removeprefix(f"Linux {kernel}: ") for note in found.notes if note.startswith("Linux")]
    assert check.measured == len(notes)
    assert check.passed is not bool(notes)
    return notes


def test_a_kernel_on_which_all_behaves_passes(tmp_path: Path) -> None:
    trials = [
        KernelTrial("6.18.15", "", told(*map(behaves, ZoneMode), refused(OLD))),
        KernelTrial("6.12", "Debian's 6.12.117 is built without sched_ext"),
    ]
    found = judged(trials)
    assert [check.passed for check in found.checks] == [True]
    assert [row[1:4] for row in found.rows][:4] == [
        ("runqueue", "probe", "yes"),
        ("stalls", "probe", "yes"),
        ("latency", "root", "yes"),
        ("throughput", "root", "yes"),
    ]
    assert found.rows[2][4:] == ("3.00", "behaves", "1.01", "5.2")
    assert found.rows[-2][3] == OLD
    assert found.rows[-1] == ("6.12", "", "", "Debian's 6.12.117 is built without sched_ext", "", "", "", "")
    page.write(tmp_path / "report.html", found, "command")
    assert "6.18.15" in (tmp_path / "report.html").read_text()


def test_what_a_kernel_should_have_taken_fails_and_what_it_cannot_have_does_not() -> None:
    assert failed("6.18.15", behaves(), refused(OLD)) == []
    assert failed("7.3.4", refused("the verifier said no")) == ["latency (sub): the verifier said no."]
    assert failed("6.18.15", refused("the verifier said no", "root")) == ["latency (root): the verifier said no."]
    assert failed("7.1.13", refused(BROKEN, "root")) == []
    assert failed("6.18.15", refused(BROKEN, "root")) == [f"latency (root): {BROKEN}."]
    assert failed("6.18.15", behaves(), stalls="no") == ["stalls: no."]


def test_each_case_may_fail() -> None:
    late = behaves()
    late["claim"] = 4.5
    assert failed("6.18.15", late) == ["latency (root): claim: 4.5."]
    few = behaves(ZoneMode.THROUGHPUT)
    few["claim"] = 4.0
    assert failed("6.18.15", few) == ["throughput (root): claim: 4."]
    starves = behaves()
    starves["bound"]["batch"] = 4.5
    assert failed("6.18.15", starves) == ["latency (root): batch waited 4.50 s."]
    for key, value, says in (
        ("after_s", None, "not ejected: it went on"),
        ("after_s", 9.5, "not ejected: runnable task stall"),
        ("starved_then_s", 0.0, "after the ejection who starved got 0.00 s"),
    ):
        stuck = behaves()
        stuck["ejected"][key] = value
        if value is None:
            stuck["ejected"]["reason"] = ""
        assert failed("6.18.15", stuck) == [f"latency (root): {says}."]


def test_every_scheduler_has_a_case_a_figure_and_its_limits() -> None:
    assert set(CASES) == set(FIGURES) == set(CLAIMS) == set(ZoneMode)


def run_of(preempt: str = "full") -> tuple[list[str], Callable[..., object]]:
    asked: list[str] = []

    async def run(
        kernel: Kernel,
        model: str,
        module: str,
        say: Callable[[str], None],
        cpus: int,
        threads: int,
        words: Sequence[str],
    ) -> GuestRun:
        asked.append(f"{kernel.version} {model} {module.rpartition('.')[2]} {cpus}/{threads} {' '.join(words)}")
        return GuestRun(kernel.version, preempt, 250, told(behaves()) if preempt == model else {})

    return asked, run


def test_each_kernel_has_a_guest_and_one_that_is_not_there_its_reason() -> None:
    asked, run = run_of()
    kernels = {"6.18": Kernel("6.18.15", Path("vmlinux"), ()), "6.12": "not here"}
    found = asyncio.run(measure(kernels, run, lambda line: None, [ZoneMode.LATENCY]))  # type: ignore[arg-type]
    assert asked == ["6.18.15 full scheduler_trials 2/2 latency"]
    assert [row[0] for row in found.rows] == ["6.18.15", "6.18.15", "6.18.15", "6.12"]
    _, other = run_of("lazy")
    with pytest.raises(Permanent, match="runs preempt=lazy and not full"):
        asyncio.run(measure(kernels, other, lambda line: None))  # type: ignore[arg-type]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COTENANT_CACHE", str(tmp_path))
    return tmp_path


def put(name: str, version: str, image: bytes = b"\0sched_ext_ops\0") -> None:
    keep(folder_of(name) / version, {"vmlinux": image})


def test_kernels_are_kept_built_or_fetched_and_what_is_absent_has_a_reason(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def no_archive(versions: Sequence[str]) -> dict[str, Kernel]:
        raise GuestUnavailable(f"no kernel of Linux {versions[0]} is kept, and Debian's archive cannot be read")

    monkeypatch.setattr(kernels_of_series, "archive_kernels", no_archive)
    put("zone-guest-linux-6.12", "6.12.117+deb13-cloud-amd64", b"\x7fELF")
    put("zone-guest-linux-6.18", "6.18.15+deb13-cloud-amd64")
    found = kernels_of(["6.12", "6.18", "7.3", "6.18"], said.append)
    assert said == ["fetches the kernels of Linux 7.3 from Debian's archive"]
    assert list(found) == ["6.12", "6.18", "7.3"]
    assert "without sched_ext" in str(found["6.12"])
    assert "`cotenant zone kernel --linux 6.12 --hz 250` builds one" in str(found["6.12"])
    assert isinstance(found["6.18"], Kernel)
    assert found["7.3"] == "no kernel of Linux 7.3 is kept, and Debian's archive cannot be read"
    # one that was built goes before a package
    put("zone-guest-hz250-6.12", "6.12.117-cotenant-250")
    built = kernels_of(["6.12"], said.append)["6.12"]
    assert isinstance(built, Kernel)
    assert built.version == "6.12.117-cotenant-250"
    assert "7.2" in kernels_of(["all"], said.append)
    with pytest.raises(InvalidInput, match="the beginning of a version"):
        kernels_of(["newest"], said.append)


def test_without_any_kernel_the_command_says_what_it_needs(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cotenant.drivers.qemu.machine.missing", lambda: "")
    put("zone-guest-linux-6.12", "6.12.117+deb13-cloud-amd64", b"\x7fELF")
    with pytest.raises(Unsupported, match=r"needs a kernel: Debian's 6\.12\.117.* is built without sched_ext"):
        registry.run_scheduler_kernels(tmp_path / "out", "command", ["6.12"], lambda line: None)
    assert not (tmp_path / "out").exists()
