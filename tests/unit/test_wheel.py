"""A wheel of the product alone: with the dependencies that it declares and nothing else, every module loads and the
processes serve.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.fakes.servers.fake_api import FakeApi
from tests.fakes.waiting import eventually, patience
from tools.tree import ROOT

pytestmark = pytest.mark.slow

EXTRAS = ("cluster", "node", "traces", "credit")  # of the image
EVERY_MODULE = """
import importlib, pkgutil, cotenant
names = [found.name for found in pkgutil.walk_packages(cotenant.__path__, "cotenant.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


def requirements(found: Distribution, extras: tuple[str, ...]) -> Iterator[Requirement]:
    for line in found.requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield wanted


def declared() -> dict[str, Distribution]:
    """What `pip install 'cotenant[EXTRAS]'` installs, of what is installed here."""
    found: dict[str, Distribution] = {}
    waiting = list(requirements(distribution("cotenant"), EXTRAS))
    while waiting:
        wanted = waiting.pop()
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        if name not in found:
            try:
                found[name] = distribution(name)
            except PackageNotFoundError:
                pytest.fail(f"{name} is declared and not installed")
            waiting += requirements(found[name], tuple(wanted.extras))
    return found


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel. Kernels are not compiled: what is asked here is whether the code is there."""

    python: Path
    folder: Path

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{words[0]}.log").open("wb")
        with log:
            return subprocess.Popen(
                self._command(words), cwd=self.folder, env=self._environment(), stdout=log, stderr=log
            )

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(words),
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=patience(120),
            check=False,
        )

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return [str(self.python), *(words if words[0] == "-c" else ("-m", "cotenant", *words))]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COTENANT_SCENARIOS")}
        return kept | {"NUMBA_DISABLE_JIT": "1", "COTENANT_CACHE": str(self.folder / "cache"), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "tests", "objects")
    shutil.copytree(ROOT / "packages/cotenant", folder / "packages/cotenant", ignore=ignored)
    (folder / "tools").mkdir()
    shutil.copy(ROOT / "tools/bpf_objects.py", folder / "tools")  # finds no Makefile, so it builds no objects
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "dist", "packages/cotenant"]
    subprocess.run([*pip, *build], cwd=folder, check=True, timeout=patience(120))
    (wheel,) = (folder / "dist").glob("cotenant-*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venv"], cwd=folder, check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    for found in declared().values():
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            target = site / top
            if not target.exists():
                target.symlink_to(Path(str(found.locate_file(top))))
    install = ["install", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run([*pip, *install], check=True, timeout=patience(120))
    return Installed(folder / "venv/bin/python", folder)


def test_every_module_of_the_wheel_loads_and_the_other_packages_are_absent(product: Installed) -> None:
    done = product.run("-c", EVERY_MODULE)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 500
    done = product.run("-c", "import cotenant_lab")
    assert "No module named 'cotenant_lab'" in done.stderr


def test_a_command_of_another_package_names_it(product: Installed) -> None:
    assert product.run("--help").returncode == 0
    for word, package in (("lab", "cotenant-lab"), ("up", "cotenant-local"), ("demo", "cotenant-local")):
        done = product.run(word)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"pip install {package}" in done.stderr
        assert done.stderr.count("\n") == 1
    assert "pip install cotenant-lab" in product.run("node", "experiment", "sine").stderr


@contextmanager
def running(product: Installed, *words: str) -> Iterator[Path]:
    """A process, until the end of the block; its log."""
    process = product.start(*words)
    log = product.folder / f"{words[0]}.log"
    try:
        yield log
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


def status(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience(10))
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def listening(log: Path) -> int:
    """The port that the process says it listens at."""
    found = re.search(r"(?:on|console:) http://127\.0\.0\.1:([1-9]\d*)", log.read_text())
    return int(found[1]) if found else 0


def test_scheduler_manager_and_console_serve(product: Installed) -> None:
    async def scenario() -> None:
        async with FakeApi() as api:
            api.node("a")
            api.pod("web")
            cluster = {"name": "c", "cluster": {"server": api.url}}
            context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
            config = {"clusters": [cluster], "users": [{"name": "u", "user": {}}], "contexts": [context]}
            kubeconfig = product.folder / "config"
            kubeconfig.write_text(json.dumps({**config, "current-context": "x"}))
            access = ("--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0")
            single = ("--no-leader-elect", "--state-dir=")
            with ExitStack() as stack:
                logs = {
                    words[0]: stack.enter_context(running(product, *words))
                    for words in (
                        ("scheduler", *access, *single),
                        ("manager", *access, *single),
                        ("console", *access),
                    )
                }
                await api.until(lambda: api.bound() == {"web": "a"}, patience(120.0))
                for name, log in logs.items():
                    port = await asyncio.to_thread(eventually, f"{name} listens", lambda log=log: listening(log), 60.0)
                    healthy = await asyncio.to_thread(
                        eventually,
                        f"{name} is healthy",
                        lambda port=port: status(port, "/healthz") == 200,
                        60.0,
                        tolerated=(OSError, http.client.HTTPException),
                    )
                    assert healthy

    asyncio.run(scenario())


def test_the_agent_observes(product: Installed) -> None:
    (product.folder / "agent.yaml").write_text("mode: observe\nnode: a\nlisten: 127.0.0.1:0\n")
    with running(product, "agent", "--config=agent.yaml") as log:
        eventually("the agent's start", lambda: "node a, mode observe" in log.read_text(), 60.0)
