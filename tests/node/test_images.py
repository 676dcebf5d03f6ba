"""The image under a real container runtime, with the user, the root and the capabilities of the chart: the scheduler
binds a pod, the agent observes the host's cgroups.

Needs podman and an image of deploy/images: `COTENANT_TEST_IMAGE=localhost/cotenant:0.1.0`. `COTENANT_TEST_PODMAN` is
the command with its options (default: podman), such as `podman --runtime /usr/sbin/runc` where the host has cgroups of
version 1. Skipped, with the reason, where there is none.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import eventually, patience

IMAGE = os.environ.get("COTENANT_TEST_IMAGE", "")
PODMAN = shlex.split(os.environ.get("COTENANT_TEST_PODMAN", "podman"))
CGROUPS = Path("/sys/fs/cgroup")
SECURITY = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65532:65532")
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")  # podman's own may be above what a guest may set

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not IMAGE, reason="COTENANT_TEST_IMAGE names no image"),
    pytest.mark.skipif(shutil.which(PODMAN[0]) is None, reason=f"no {PODMAN[0]}; COTENANT_TEST_PODMAN may name one"),
]


@contextmanager
def container(arguments: list[str], mounts: dict[Path, str]) -> Iterator[Callable[[], str]]:
    """A container on the host's network, removed at the end; gives what it has logged."""
    name = f"cotenant-test-{uuid4().hex[:12]}"
    volumes = [f"--volume={path}:{place}:ro" for path, place in mounts.items()]
    command = [*PODMAN, "run", "--detach", f"--name={name}", "--network=host", "--tmpfs=/tmp", *SECURITY, *LIMITS]
    started = subprocess.run(
        [*command, *volumes, IMAGE, *arguments], capture_output=True, text=True, timeout=patience(120), check=False
    )
    assert started.returncode == 0, started.stderr

    def logs() -> str:
        found = subprocess.run(
            [*PODMAN, "logs", name], capture_output=True, text=True, timeout=patience(60), check=True
        )
        return found.stdout + found.stderr

    try:
        yield logs
    finally:
        subprocess.run(
            [*PODMAN, "rm", "--force", "--time=5", name], capture_output=True, timeout=patience(120), check=False
        )


def test_the_scheduler_binds_a_pod(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.pod("web")
            cluster = {"name": "c", "cluster": {"server": api.url}}
            context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
            config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
            (tmp_path / "config").write_bytes(msgspec.json.encode({**config, "current-context": "x"}))
            arguments = [
                "scheduler",
                "--kubeconfig=/etc/kube/config",
                "--no-leader-elect",
                "--state-dir=",
                "--listen=127.0.0.1:0",
            ]
            with container(arguments, {tmp_path: "/etc/kube"}) as logs:
                try:
                    await api.until(lambda: api.bound() == {"web": "a"}, 180.0)  # kernels may have to be compiled
                except TimeoutError:
                    pytest.fail(logs())

    tmp_path.chmod(0o755)
    asyncio.run(scenario())


@pytest.mark.skipif(not CGROUPS.is_dir(), reason=f"no {CGROUPS}")
def test_the_agent_observes(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "agent.yaml").write_text("mode: observe\nnode: a\ncgroup_root: /host/cgroup\nlisten: ''\n")
    mounts = {tmp_path: "/etc/cotenant", CGROUPS: "/host/cgroup"}
    with container(["agent", "--config=/etc/cotenant/agent.yaml"], mounts) as logs:
        eventually("the agent's start", lambda: "node a, mode observe" in logs(), 120.0, interval_s=0.5)
