"""Pods of a zone: what a file may say, what the guest's agent does with it, and what an image leaves to the pod."""

from __future__ import annotations

import asyncio
import errno
import http.server
import io
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.images import layer_of, save_image
from tests.fakes.waiting import eventually

from cotenant.drivers.docker.archive import ImageConfig
from cotenant.model.errors import InvalidInput, Permanent
from cotenant.model.zones.table import ZoneClass
from cotenant.services.zones.pods import PodImage, PodVolume, ZonePod
from cotenant.services.zones.vm_backend import NOT_STARTED, GuestState
from cotenant.services.zones.vm_guest_pods import GuestPods, answers
from cotenant.services.zones.vm_images import program_of, unpack_images
from cotenant.services.zones.vm_link import GuestLink
from cotenant.services.zones.zone_files import definition_of

BOX = """zone: box
vm: {VM}
pods:
  - {name: web, image: {archive: web.tar}, POD}
  - {name: job, kind: batch, image: {archive: job.tar}, JOB}
"""


def box(pod: str = "", job: str = "", vm: str = "memory_mib: 512") -> str:
    return BOX.replace("VM", vm).replace("POD", pod).replace("JOB", job)


def test_pods_are_groups_with_rows() -> None:
    definition = definition_of(box("weight: 400, late_ms: 5").encode(), "box")
    assert definition.rows().keys() == {"web", "job"}
    assert definition.rows()["web"].late_us == 5000
    assert definition.rows()["job"].zone_class is ZoneClass.BATCH
    assert definition.reads_host_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (box("ports: [{container: 80}]", "ports: [{container: 80}]"), "no other pod"),
        (box("ports: [{container: 80, host: 90}]", "ports: [{container: 81, host: 90}]"), "no other pod"),
        (box("ports: [{container: 70000}]"), "1 to 65535"),
        (box("ports: [{container: 1, address: localhost}]"), "IPv4"),
        (box("volumes: [{path: /, name: a}]"), "below /"),
        (box("volumes: [{path: /a}]"), "a name, or host"),
        (box("volumes: [{path: /a, host: /run/x}]"), "guest's own"),
        (box("volumes: [{path: /a, host: ../x}]"), "absolute"),
        (box("volumes: [{path: /a, name: a}, {path: /a, name: b}]"), "another path"),
        (box("volumes: [{path: /a, name: a}, {path: /a/, name: b}]"), "another path"),
        (box("volumes: [{path: /a, name: a}, {path: //a, name: b}]"), "another path"),
        (box("volumes: [{path: /proc, name: a}]"), "not the pod's own"),
        (box("volumes: [{path: /dev/x, name: a}]"), "not the pod's own"),
        (
            box("volumes: [{path: /a, name: a}]", "volumes: [{path: /b, name: a, mib: 32}]"),
            r"volumes\.mib: 32: expected 16",
        ),
        (box("cpu_milli: 9"), "10 or more"),
        (box("probe: {port: 1, path: x}"), "begins with /"),
        (box("probe: {port: 1, path: '/a b'}"), "begins with /"),
        (box("env: {'A B': x}"), "names of letters"),
        (box("user: root"), "UID"),
        (box("processes: 0"), "at most"),
        (box(vm="kernel: {file: a, package: linux-image-amd64}"), "not both"),
        (box(vm="kernel: {package: ../x}"), "meta-package"),
        (box(vm="kernel: {cmdline: 'init=/bin/sh'}"), "does not set itself"),
        (box(vm="kernel: {cmdline: 'a=\"b c\"'}"), "parameters as in"),
        (box(vm="kernel: {hz: 999}"), "100, 250"),
        (box(vm="kernel: {sha256: abc}"), "64 hexadecimal"),
        (box(vm="host_paths: [/proc/1]"), "guest's own"),
        (box(vm="host_paths: [/a/../b]"), "without"),
        (box(vm="host_paths: [//]"), "without"),
        (box(vm="host_paths: [/]"), "below it"),
        (box(vm="host_paths: [/.]"), "below it"),
        (box("volumes: [{path: /a, host: /}]"), "below /"),
        (box("volumes: [{path: /a, host: /./}]"), "below /"),
        ("zone: a\npods: [{name: web, image: {archive: a}}]\n", "none without vm"),
        (box().replace("name: job", "name: web"), "not listed twice"),
    ],
)
def test_a_wrong_file_is_one_line_before_anything_is_done(text: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=expected):
        definition_of(text.encode(), "box.yaml")


@pytest.mark.parametrize(
    ("command", "args", "expected"),
    [
        ((), (), ["/entry", "-a", "cmd"]),
        ((), ("x",), ["/entry", "-a", "x"]),
        (("/own",), (), ["/own"]),
        (("/own",), ("x",), ["/own", "x"]),
    ],
)
def test_a_pods_words_replace_the_images_as_in_kubernetes(
    command: tuple[str, ...], args: tuple[str, ...], expected: list[str]
) -> None:
    pod = ZonePod("web", PodImage("web.tar"), command=command, args=args)
    assert program_of(pod, ImageConfig(("/entry", "-a"), ("cmd",))) == expected


def test_a_volume_within_another_is_mounted_after_it(tmp_path: Path) -> None:
    save_image(tmp_path / "web.tar", [layer_of({"a": b"x"})], {"Cmd": ["/a"]})
    volumes = tuple(PodVolume(path, path.strip("/").replace("/", "-")) for path in ("/a/b/c", "/b", "/a", "/a/b"))
    pod = ZonePod("web", PodImage("web.tar"), volumes=volumes)
    _, (spec,), _ = unpack_images([pod], str(tmp_path / "box.yaml"), tmp_path / "to", 64)
    assert [volume["path"] for volume in spec["volumes"]] == ["/b", "/a", "/a/b", "/a/b/c"]


class Program:
    """A process that ends when it is told to."""

    def __init__(self, said: bytes = b"") -> None:
        self.stdout = io.BytesIO(said)
        self.ended = threading.Event()
        self.status = 0

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("program", timeout or 0)
        return self.status

    def terminate(self) -> None:
        self.status = -15
        self.ended.set()

    def end(self, status: int) -> None:
        self.status = status
        self.ended.set()


class Started:
    """Programs in the order in which they were started."""

    def __init__(self) -> None:
        self.programs: list[Program] = []

    def __call__(self, words: list[str], **how: Any) -> Any:
        self.programs.append(Program(b"one\ntwo\n"))
        return self.programs[-1]


def spec(name: str, kind: str, probe: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "command": ["/x"],
        "env": [],
        "user": "",
        "workdir": "/",
        "processes": 5,
        "memoryMib": 3,
        "cpuMilli": 500,
        "writesMib": 7,
        "volumes": [{"path": "/data", "name": "shared", "mib": 2, "host": ""}],
        "probe": probe,
    }


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Folders of a guest: images of two pods, groups, mounts."""
    for name in ("web", "job"):
        (tmp_path / "images" / name).mkdir(parents=True)
    (tmp_path / "tree").mkdir()
    return tmp_path


def pods_of(place: Path, started: Started, mounts: list[tuple[str, ...]]) -> GuestPods:
    def mount(*words: str) -> None:
        mounts.append(words)

    return GuestPods(place / "tree", place / "run/pods", place / "images", started, mount, pause_s=0.01)


def test_a_pod_has_a_root_of_its_own_and_its_group_has_its_limits(place: Path) -> None:
    started, mounts = Started(), list[tuple[str, ...]]()
    pods = pods_of(place, started, mounts)
    pods.start([spec("web", "service"), spec("job", "batch")])
    eventually("both run", lambda: len(started.programs) == 2)
    overlays = [words for words in mounts if "overlay" in words]
    assert f"lowerdir={place}/images/web," in overlays[0][3]
    assert overlays[0][-1] == f"{place}/run/pods/web/root"
    sizes = [words[3] for words in mounts if words[1] == "tmpfs"]
    assert sizes == ["size=7m", "size=2m,mode=1777", "size=7m"]  # the volume is one for both
    for name, value in (("pids.max", "5"), ("memory.max", str(3 << 20)), ("cpu.max", "50000 100000")):
        assert (place / "tree/web" / name).read_text() == value
    for program in started.programs:
        program.end(0)


def test_batch_ends_and_a_service_starts_again(place: Path) -> None:
    started = Started()
    pods = pods_of(place, started, [])
    pods.start([spec("job", "batch")])
    eventually("it runs", lambda: pods.shown()["job"]["running"])
    assert pods.shown()["job"]["ready"]
    started.programs[0].end(0)
    eventually("it ended", lambda: pods.shown()["job"]["exit"] == 0)
    assert pods.shown()["job"]["log"] == ["one", "two"]
    pods.start([spec("web", "service")])
    eventually("it runs", lambda: pods.shown()["web"]["running"])
    started.programs[1].end(137)
    eventually("it runs again", lambda: len(started.programs) == 3)
    assert pods.shown()["web"]["exit"] == 137
    assert len(started.programs) == 3  # batch was not started again
    started.programs[2].end(0)


def test_a_program_that_cannot_be_started_is_its_pods_state_and_tried_again(place: Path) -> None:
    started, tries = Started(), list[int]()

    def run(words: list[str], **how: Any) -> Any:
        tries.append(len(words))
        if len(tries) == 1:
            raise OSError(errno.E2BIG, "Argument list too long")
        return started(words, **how)

    pods = GuestPods(place / "tree", place / "run/pods", place / "images", run, lambda *words: None, pause_s=0.01)
    pods.start([spec("web", "service")])
    eventually("it was started again", lambda: pods.shown()["web"]["running"])
    shown = pods.shown()["web"]
    assert (shown["exit"], shown["restarts"]) == (127, 1)
    started.programs[0].end(0)


def test_a_volume_over_a_link_of_the_image_is_refused(place: Path) -> None:
    def linked(*words: str) -> None:
        if "overlay" in words:
            Path(words[-1], "data").symlink_to("/etc")

    pods = GuestPods(place / "tree", place / "run/pods", place / "images", Started(), linked)
    with pytest.raises(ValueError, match="is a link in the image"):
        pods.start([spec("web", "service")])


@pytest.fixture
def page() -> Iterator[tuple[int, Callable[[int], None]]]:
    """A server's port, and what sets the status that it answers."""
    status = [200]

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[0])
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server.server_address[1], lambda code: status.__setitem__(0, code)
    server.shutdown()
    server.server_close()


def test_a_probe_is_a_connection_or_an_answer(page: tuple[int, Callable[[int], None]]) -> None:
    port, answer_with = page
    for status, holds in ((200, True), (302, True), (404, False), (503, False)):
        answer_with(status)
        assert answers(port, "/x", 5) is holds
    assert answers(port, "", 5)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert not answers(taken.getsockname()[1], "", 5)


def test_a_service_that_stops_answering_is_started_again(place: Path, page: tuple[int, Callable[[int], None]]) -> None:
    port, answer_with = page
    started = Started()
    pods = pods_of(place, started, [])
    answer_with(503)
    probe = {"port": port, "path": "/", "periodS": 0.01, "timeoutS": 5, "failures": 2, "restart": True}
    pods.start([spec("web", "service", probe)])
    eventually("it runs", lambda: pods.shown()["web"]["running"])
    assert not pods.shown()["web"]["ready"]  # and is not ended: it still starts
    answer_with(200)
    eventually("it is ready", lambda: pods.shown()["web"]["ready"])
    assert len(started.programs) == 1
    answer_with(500)
    eventually("it was started again", lambda: len(started.programs) == 2)
    assert pods.shown()["web"]["exit"] == 128 + 15
    answer_with(200)
    eventually("it is ready again", lambda: pods.shown()["web"]["ready"])
    started.programs[1].end(0)


def test_a_guest_tells_of_the_zones_pods_only_and_changes_are_logged(tmp_path: Path) -> None:
    lines: list[str] = []
    counted: list[object] = []
    state = GuestState(GuestLink(), {"web": {"image": "web.tar"}}, lines.append, counted.append)
    told = {"running": True, "ready": False, "restarts": 0, "exit": None, "log": ["x" * 9999] * 99}

    async def ask(pods: object, counters: object = None) -> None:
        answer = {"cpuUs": {}, "runs": None, "late": {}, "exit": None, "pods": pods, "counters": counters or {}}

        async def answered(do: str, timeout_s: float = 0, **fields: object) -> object:
            return answer

        state.link.ask = answered  # type: ignore[method-assign]
        await state.ask("read")

    assert state.pods == {"web": {"image": "web.tar", **NOT_STARTED}}
    asyncio.run(ask({"web": told, "other": told}, {"runnable": 1}))
    assert state.pods.keys() == {"web"}
    assert state.pods["web"]["image"] == "web.tar"
    assert [len(line) for line in state.pods["web"]["log"]] == [500] * 20
    asyncio.run(ask({"web": {**told, "ready": True}}))
    asyncio.run(ask({"web": {**told, "running": False, "exit": 3, "log": ["why"]}}))
    assert lines == ["pod web runs", "pod web is ready", "pod web is not ready", "pod web ended with status 3: why"]
    assert counted[0] == {"runnable": 1}
    endless = {**told, "restarts": float("inf")}  # JSON as Python reads it has infinities
    for wrong in ([], {"web": 3}, {"web": {}}, {"web": {**told, "restarts": "many"}}, {"web": endless}):
        with pytest.raises(Permanent, match="not a reading"):
            asyncio.run(ask(wrong))
