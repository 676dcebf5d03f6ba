"""What it takes to start containers again and to ask for their health by CRI; when is decided elsewhere.

A restart is the next attempt in the same pod. A runtime refuses a second container of an attempt's number, and starts
none twice: so whoever is killed between these steps, no attempt runs twice. The attempt before is kept for its exit
status, those before it are removed.

Source: Kubernetes cri-api, ExecSync; containerd, names of containers.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.containers import LOGS, NAME, CriContainers, attempt_of, last_attempts, status_of
from cotenant.drivers.cri.messages import SANDBOX_READY, SERVICE
from cotenant.drivers.cri.recipe import QUICK_ENDS, RECIPE, SUPERVISED, read_recipe
from cotenant.model.errors import Permanent, Transient
from cotenant.model.fleet.supervision import SupervisedContainer, Supervision
from cotenant.model.machine.knob import Vanished

_log = logging.getLogger(__name__)
_MAX_PROBES = 16  # at once; others wait for their turn
_KILLED_S = 10.0  # within it a runtime ends a check that has taken too long
_SAID = 200  # characters


class SupervisedContainers(CriContainers):
    """Adds to `CriContainers` what a supervisor needs."""

    def __init__(self, socket: Path, logs: Path = LOGS, client: CriClient | None = None) -> None:
        super().__init__(socket, logs, client)
        self._probing = ThreadPoolExecutor(_MAX_PROBES, "health check")
        self._unreadable: set[str] = set()

    async def close(self) -> None:
        """As the Protocol; checks that run are given up."""
        await super().close()
        self._probing.shutdown(wait=False, cancel_futures=True)

    async def supervised(self, labels: Mapping[str, str]) -> tuple[SupervisedContainer, ...]:
        """Those with these labels that something is to be done for. Raises `Transient`."""
        pods, containers = await self._both({**labels, SUPERVISED: "true"})
        last = {container.pod_sandbox_id: container for container in last_attempts(containers)}
        found = []
        for pod in pods:
            container = last.get(pod.id)
            status = None if container is None else await self._status(container.id)
            if container is None or status is None:
                continue  # its maker was killed, or it is being removed
            name, quick_ends = dict(pod.labels).get(NAME, ""), dict(container.annotations).get(QUICK_ENDS, "")
            found.append(
                SupervisedContainer(
                    name=name,
                    id=str(container.id),
                    attempt=attempt_of(container),
                    status=status_of(status),
                    exit_code=int(status.exit_code),
                    started_s=status.started_at / 1e9,
                    finished_s=status.finished_at / 1e9,
                    quick_ends=int(quick_ends) if quick_ends.isdecimal() else 0,
                    is_held=pod.state != SANDBOX_READY or self._hold(name).exists(),
                    supervision=self._supervision(name, dict(pod.annotations).get(RECIPE, "")),
                )
            )
        return tuple(found)

    def _supervision(self, name: str, text: str) -> Supervision:
        """Nothing is done for one whose annotation somebody has changed; said once."""
        try:
            supervision = read_recipe(text).supervision
        except Permanent as error:
            if name not in self._unreadable:
                self._unreadable.add(name)
                _log.warning("%s is not supervised: %s", name, error)
            return Supervision()
        self._unreadable.discard(name)
        return supervision

    async def restart(self, found: SupervisedContainer, quick_ends: int) -> None:
        """Make and start the attempt after this one. Raises `Transient`, `Permanent`."""
        pods, containers = await self._both({NAME: found.name})
        if not pods:
            raise Permanent(f"the pod of {found.name} is gone")
        for container in containers:
            if attempt_of(container) < found.attempt:
                with suppress(Vanished):
                    await self._made("RemoveContainer", container_id=container.id)
        recipe = read_recipe(dict(pods[0].annotations).get(RECIPE, ""))
        config = recipe.attempt(found.attempt + 1, quick_ends)
        made = await self._made("CreateContainer", pod_sandbox_id=pods[0].id, config=config, sandbox_config=recipe.pod)
        await self._made("StartContainer", container_id=made.container_id)

    async def probe(self, container: str, command: Sequence[str], timeout_s: float) -> tuple[bool, str]:
        """Run a check: (passed, what it said). `timeout_s` is rounded up to whole seconds, which the interface has.

        Raises `Transient`, and `Vanished` where the container is gone.
        """
        whole_s = math.ceil(timeout_s)
        fields = {"container_id": container, "cmd": list(command), "timeout": whole_s}
        run = partial(self._client.call, "ExecSync", SERVICE, whole_s + _KILLED_S, **fields)
        try:
            answer = await asyncio.get_running_loop().run_in_executor(self._probing, run)
        except Transient as error:
            await self._ask("Version")
            is_late = "deadline exceeded" in str(error).lower()
            return False, f"it took longer than {whole_s} s" if is_late else str(error)[:_SAID]
        said = f"{answer.stdout.decode(errors='replace')} {answer.stderr.decode(errors='replace')}"
        return answer.exit_code == 0, " ".join(said.split())[:_SAID]
