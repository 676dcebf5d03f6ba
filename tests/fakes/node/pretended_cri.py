"""A container runtime behind a client of CRI, in memory, with containerd's rules of names and states, and a clock that
a test moves. A client dies where it is told to: from then on nothing reaches the runtime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cotenant.drivers.cri.client import CriClient
from cotenant.drivers.cri.making import making_messages
from cotenant.drivers.cri.messages import SERVICE
from cotenant.model.errors import Transient
from cotenant.model.machine.knob import Vanished

CREATED, RUNNING, EXITED = range(3)


@dataclass
class MadeContainer:
    id: str
    pod: str
    config: Any
    state: int = CREATED
    exit_code: int = 0
    started_s: float = 0.0
    finished_s: float = 0.0


@dataclass
class PretendedCri:
    """What the runtime has, over all its clients. `check`: (exit status, output) of a command, or an error."""

    now_s: float = 1000.0
    pods: dict[str, Any] = field(default_factory=dict)
    containers: dict[str, MadeContainer] = field(default_factory=dict)
    starts: Counter[int] = field(default_factory=Counter)  # by attempt
    max_running: int = 0
    check: Callable[[list[str]], tuple[int, bytes]] = lambda _: (0, b"")
    refused: str = ""  # a method that fails
    ended_pods: set[str] = field(default_factory=set)

    def end(self, code: int) -> None:
        """What runs ends now."""
        for container in self.containers.values():
            if container.state == RUNNING:
                container.state, container.exit_code, container.finished_s = EXITED, code, self.now_s

    def attempts(self, state: int) -> list[int]:
        return [found.config.metadata.attempt for found in self.containers.values() if found.state == state]

    # ---- the interface

    def answer_Version(self, _: Any) -> dict[str, Any]:  # noqa: N802
        return {}

    def answer_ImageStatus(self, _: Any) -> dict[str, Any]:  # noqa: N802
        return {"image": {"id": "image"}}

    def answer_RunPodSandbox(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        pod = f"pod-{len(self.pods)}"
        self.pods[pod] = asked.config
        return {"pod_sandbox_id": pod}

    def answer_CreateContainer(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        assert asked.sandbox_config.metadata == self.pods[asked.pod_sandbox_id].metadata
        assert asked.sandbox_config.log_directory == self.pods[asked.pod_sandbox_id].log_directory
        if not asked.config.image.user_specified_image:  # CRI-O 1.37; containerd takes it without
            raise Transient("user specified image not specified, cannot verify image signature")
        for found in self.containers.values():
            if (found.pod, found.config.metadata) == (asked.pod_sandbox_id, asked.config.metadata):
                raise Transient("the name is reserved")
        made = MadeContainer(
            f"{asked.pod_sandbox_id}-{asked.config.metadata.attempt}", asked.pod_sandbox_id, asked.config
        )
        self.containers[made.id] = made
        return {"container_id": made.id}

    def answer_StartContainer(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        found = self._found(asked.container_id)
        if found.state != CREATED:
            raise Transient("not in created state")
        found.state, found.started_s = RUNNING, self.now_s
        self.starts[found.config.metadata.attempt] += 1
        self.max_running = max(self.max_running, len(self.attempts(RUNNING)))
        return {}

    def answer_StopContainer(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        if self._found(asked.container_id).state == RUNNING:
            self.end(143)
        return {}

    def answer_RemoveContainer(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        assert self.containers.pop(asked.container_id).state != RUNNING
        return {}

    def answer_StopPodSandbox(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        self.ended_pods.add(asked.pod_sandbox_id)
        return {}

    def answer_ListPodSandbox(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        wanted = dict(asked.filter.label_selector).items()
        return {
            "items": [
                {
                    "id": pod,
                    "labels": dict(config.labels),
                    "annotations": dict(config.annotations),
                    "state": int(pod in self.ended_pods),
                }
                for pod, config in self.pods.items()
                if wanted <= dict(config.labels).items()
            ]
        }

    def answer_ListContainers(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        wanted = dict(asked.filter.label_selector).items()
        return {
            "containers": [
                {
                    "id": found.id,
                    "pod_sandbox_id": found.pod,
                    "metadata": found.config.metadata,
                    "state": found.state,
                    "labels": dict(found.config.labels),
                    "annotations": dict(found.config.annotations),
                }
                for found in self.containers.values()
                if wanted <= dict(found.config.labels).items()
            ]
        }

    def answer_ContainerStatus(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        found = self._found(asked.container_id)
        return {
            "status": {
                "id": found.id,
                "state": found.state,
                "exit_code": found.exit_code,
                "started_at": int(found.started_s * 1e9),
                "finished_at": int(found.finished_s * 1e9),
                "labels": dict(found.config.labels),
            }
        }

    def answer_ExecSync(self, asked: Any) -> dict[str, Any]:  # noqa: N802
        assert self._found(asked.container_id).state == RUNNING
        code, said = self.check(list(asked.cmd))
        return {"exit_code": code, "stdout": said}

    def _found(self, container: str) -> MadeContainer:
        if container not in self.containers:
            raise Vanished(container)
        return self.containers[container]


class PretendedClient(CriClient):
    """`dies_at`: the call, counted from 1, at which its process is killed; `is_done`: that call reaches the runtime."""

    def __init__(self, runtime: PretendedCri, dies_at: int = 0, *, is_done: bool = False) -> None:
        super().__init__("pretended", kinds=making_messages)
        self._runtime, self._dies_at, self._is_done = runtime, dies_at, is_done
        self.calls = 0

    @property
    def is_dead(self) -> bool:
        return 0 < self._dies_at <= self.calls

    def _call(self, method: str, service: str = SERVICE, timeout_s: float = 0.0, **fields: object) -> Any:
        if self.is_dead:
            raise Transient("killed")
        self.calls += 1
        if self.is_dead and not self._is_done:
            raise Transient("killed")
        if method == self._runtime.refused:
            raise Transient("refused")
        kinds = making_messages()
        answer = getattr(self._runtime, f"answer_{method}")(kinds[f"{method}Request"](**fields))
        if self.is_dead:
            raise Transient("killed")
        return kinds[f"{method}Response"](**answer)
