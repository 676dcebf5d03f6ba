"""Calls of the `helm` program (3.8 or later, also 4): charts are installed by it, not by code of ours.

It is named by $HELM or found on the path. Each call is a process with a deadline; what it says on standard error is the
error's text.
Source: Helm documentation, "Helm Commands".
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cotenant.model.errors import Permanent, Unsupported

_MAX_SAID = 2000  # characters of an error


@dataclass(frozen=True, slots=True)
class ChartRelease:
    """A release as `helm list` has it."""

    name: str
    namespace: str
    revision: int
    state: str
    chart: str


class _Listed(msgspec.Struct):
    name: str
    namespace: str
    revision: str | int
    status: str
    chart: str = ""


class _Revision(msgspec.Struct):
    revision: int
    status: str


def find_helm() -> str:
    """The program's path, empty where there is none."""
    return os.environ.get("HELM", "") or shutil.which("helm") or ""


class Helm:
    """Helm against one cluster and namespace."""

    def __init__(self, program: str, namespace: str, kubeconfig: Path | None, context: str) -> None:
        if not program:
            raise Unsupported("a chart", "the program helm: put it on the path, or name it in $HELM")
        self._program = program
        self._namespace = namespace
        self._common = [f"--namespace={namespace}"]
        if kubeconfig is not None:
            self._common.append(f"--kubeconfig={kubeconfig}")
        if context:
            self._common.append(f"--kube-context={context}")

    async def render(self, name: str, chart: str, values: Sequence[str]) -> str:
        """The manifest of a chart, hooks included, without a change of the cluster."""
        return await self._run(["template", name, chart, *values], 120.0)

    async def install(self, name: str, chart: str, values: Sequence[str], timeout_s: float) -> None:
        """Install; hooks are waited for, workloads are not."""
        await self._run(["install", name, chart, *values, f"--timeout={timeout_s:.0f}s"], timeout_s + 30)

    async def upgrade(self, name: str, chart: str, values: Sequence[str], timeout_s: float) -> None:
        """Upgrade; as `install`."""
        await self._run(["upgrade", name, chart, *values, f"--timeout={timeout_s:.0f}s"], timeout_s + 30)

    async def roll_back(self, name: str, revision: int, timeout_s: float) -> None:
        """Back to a revision, 0 = the one before."""
        which = [str(revision)] if revision else []
        await self._run(["rollback", name, *which, f"--timeout={timeout_s:.0f}s"], timeout_s + 30)

    async def uninstall(self, name: str, timeout_s: float) -> None:
        """Remove all of it."""
        await self._run(["uninstall", name, f"--timeout={timeout_s:.0f}s"], timeout_s + 30)

    async def manifest(self, name: str) -> str:
        """The manifest of the release's latest revision, without its hooks."""
        return await self._run(["get", "manifest", name], 60.0)

    async def releases(self, everywhere: bool = False) -> list[ChartRelease]:
        """The releases of the namespace, or of all."""
        words = ["list", "--all", "--max=0", "--output=json", *(["--all-namespaces"] if everywhere else [])]
        found = msgspec.json.decode(await self._run(words, 60.0), type=list[_Listed])
        return [ChartRelease(one.name, one.namespace, int(one.revision), one.status, one.chart) for one in found]

    async def find(self, name: str) -> ChartRelease | None:
        """A release of the namespace."""
        return next((one for one in await self.releases() if one.name == name), None)

    async def revisions(self, name: str) -> list[tuple[int, str]]:
        """Its revisions with their states, oldest first."""
        found = msgspec.json.decode(
            await self._run(["history", name, "--max=50", "--output=json"], 60.0), type=list[_Revision]
        )
        return [(one.revision, one.status) for one in found]

    async def _run(self, words: Sequence[str], within_s: float) -> str:
        process = await asyncio.create_subprocess_exec(
            self._program,
            *words,
            *self._common,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, said = await asyncio.wait_for(process.communicate(), within_s)
        except (TimeoutError, asyncio.CancelledError) as error:
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise Permanent(f"helm {words[0]} has not ended within {within_s:.0f} s") from None
            raise
        if process.returncode:
            raise Permanent(f"helm {words[0]}: {said.decode(errors='replace').strip()[:_MAX_SAID]}")
        return out.decode(errors="replace")
