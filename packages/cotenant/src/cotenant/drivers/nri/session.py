"""One connection of a plugin to its runtime: registration, then the runtime's calls until it closes.

A container's creation waits for every answer, and an error in one fails the creation. Every call is answered in the
order in which it came, at once, from values at hand; whatever goes wrong in a decision is an empty answer, with which
the container starts as the runtime was told. Creations and updates carry their pod and container whole, so that nothing
has to be remembered; removals are subscribed to only by a plugin that says what of containers runs, and decide nothing.
No other event waits for this process.
Limits: a runtime that does not configure a plugin within its own time closes the connection; reconnecting is the
caller's. Two plugins that change the same field of a container make its creation fail: that is the interface's rule.

Source: containerd/nri, pkg/adaptation (what the runtime does with answers, errors and time-outs).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from cotenant.drivers.nri import containers, mux, ttrpc
from cotenant.drivers.nri.containers import HookedContainer, HookedPod
from cotenant.drivers.nri.messages import PLUGIN_SERVICE, RUNTIME_SERVICE, NriEvent, messages
from cotenant.model.errors import CotenantError, Permanent, Transient, Unsupported
from cotenant.model.machine.first_values import FirstValues

if TYPE_CHECKING:
    from google.protobuf.message import Message

NEEDS = "a container runtime with NRI (containerd 1.7 with it enabled, containerd 2, CRI-O), and protobuf"
REGISTERED_WITHIN_S = 5.0
EVENTS = (NriEvent.CREATE_CONTAINER, NriEvent.UPDATE_CONTAINER)
_READ = 1 << 18
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RuntimeVersion:
    """The runtime as it names itself."""

    name: str
    version: str


class NriPlugin(Protocol):
    """What answers the runtime's calls."""

    def configured(self, runtime: RuntimeVersion) -> None:
        """The runtime knows this plugin, and does not ask it yet."""
        ...

    def synchronized(
        self, pods: Sequence[HookedPod], found: Sequence[tuple[HookedPod, HookedContainer]], *, more: bool
    ) -> None:
        """What runs already; a large node tells it in several calls. After the last, no container is created without
        this plugin.
        """
        ...

    def creating(self, pod: HookedPod, container: HookedContainer) -> FirstValues:
        """What a container starts with."""
        ...

    def updating(self, pod: HookedPod, container: HookedContainer) -> FirstValues:
        """What an update of a container is changed to."""
        ...

    def removed(self, container_id: str) -> None:
        """A container is no more."""
        ...

    def failed(self, method: str) -> None:
        """A call could not be decided, and was answered without a change."""
        ...


class NriSession:
    """One connection. `cpu_version`: 1 or 2, of the tree with the CPU controller. `removals`: the plugin is told what
    is no more.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        plugin: NriPlugin,
        cpu_version: int,
        *,
        removals: bool = False,
    ) -> None:
        try:
            self._kinds = messages()
        except ImportError as error:
            raise Unsupported("a runtime hook", NEEDS) from error
        self._reader, self._writer, self._plugin, self._cpu_version = reader, writer, plugin, cpu_version
        self._events = (*EVENTS, NriEvent.REMOVE_CONTAINER) if removals else EVENTS
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._next_stream = 1
        self._methods: dict[str, Callable[[bytes], Message]] = {
            "Configure": self._configure,
            "Synchronize": self._synchronize,
            "CreateContainer": self._create,
            "UpdateContainer": self._update,
            "StopContainer": lambda body: self._kinds["StopContainerResponse"](),
            "StateChange": self._state_changed,
            "RemoveContainer": self._remove,
            "Shutdown": lambda body: self._kinds["Empty"](),
        }
        self._empty = {
            "Configure": "ConfigureResponse",
            "Synchronize": "SynchronizeResponse",
            "CreateContainer": "CreateContainerResponse",
            "UpdateContainer": "UpdateContainerResponse",
        }

    async def run(self, name: str, index: str) -> None:
        """Register as `name`, which is called at `index` ("00" to "99") among plugins, and answer until the runtime
        closes.

        Raises `Transient` where the runtime does not answer, `Permanent` where it refuses or breaks the protocol.
        """
        reading = asyncio.create_task(self._read(), name="runtime's calls")
        try:
            registered = self._call("RegisterPlugin", "RegisterPluginRequest", plugin_name=name, plugin_idx=index)
            waiting = asyncio.ensure_future(registered)
            await asyncio.wait({reading, waiting}, timeout=REGISTERED_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                waiting.cancel()
                if reading.done():
                    reading.result()
                raise Transient("the runtime did not register the plugin")
            waiting.result()
            await reading
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError, CotenantError):
                await reading
            self._writer.close()

    async def _read(self) -> None:
        frames, calls, answers = mux.Frames(), ttrpc.Messages(), ttrpc.Messages()
        while data := await self._received():
            for connection, piece in frames.feed(data):
                if connection == mux.PLUGIN:
                    for message in calls.feed(piece):
                        self._answer(message)
                elif connection == mux.RUNTIME:
                    for message in answers.feed(piece):
                        self._answered(message)
            with suppress(ConnectionError):  # the next reading says what happened
                await self._writer.drain()

    async def _received(self) -> bytes:
        try:
            return await self._reader.read(_READ)
        except OSError as error:
            raise Transient(f"the runtime broke the connection: {error.strerror}") from error

    def _answer(self, message: ttrpc.TtrpcMessage) -> None:
        if message.type != ttrpc.REQUEST:
            return
        response = self._kinds["Response"]()
        method = ""
        try:
            if message.body is None:
                self._refuse(response, ttrpc.RESOURCE_EXHAUSTED, f"a message of more than {ttrpc.MAX_BYTES} bytes")
            else:
                request = self._kinds["Request"].FromString(message.body)
                method = request.method
                handle = self._methods.get(method) if request.service == PLUGIN_SERVICE else None
                if handle is None:
                    self._refuse(response, ttrpc.UNIMPLEMENTED, f"{request.service}/{method} is not known here")
                else:
                    response.payload = handle(request.payload).SerializeToString()
        except Exception:  # of any kind: a container's creation waits for this answer, and an error would end it
            _log.exception("%s could not be decided; the container starts as the runtime was told", method or "a call")
            self._plugin.failed(method)
            response = self._kinds["Response"]()
            if method in self._empty:
                response.payload = self._without_change(method).SerializeToString()
        self._send(mux.PLUGIN, message.stream, ttrpc.RESPONSE, response)

    def _without_change(self, method: str) -> Message:
        made = self._kinds[self._empty[method]]()
        if method == "Configure":
            made.events = sum(event.bit for event in self._events)
        return made

    def _refuse(self, response: Message, code: int, text: str) -> None:
        self._plugin.failed("refused")
        response.status.code, response.status.message = code, text

    def _configure(self, body: bytes) -> Message:
        request = self._kinds["ConfigureRequest"].FromString(body)
        self._plugin.configured(RuntimeVersion(request.runtime_name, request.runtime_version))
        return self._without_change("Configure")

    def _synchronize(self, body: bytes) -> Message:
        request = self._kinds["SynchronizeRequest"].FromString(body)
        pods = {pod.id: containers.pod_of(pod) for pod in request.pods}
        found = [
            (pods[container.pod_sandbox_id], containers.container_of(container))
            for container in request.containers
            if container.pod_sandbox_id in pods
        ]
        self._plugin.synchronized(tuple(pods.values()), found, more=request.more)
        return self._kinds["SynchronizeResponse"](more=request.more)

    def _create(self, body: bytes) -> Message:
        request = self._kinds["CreateContainerRequest"].FromString(body)
        values = self._plugin.creating(containers.pod_of(request.pod), containers.container_of(request.container))
        made = self._kinds["CreateContainerResponse"]()
        if not values.is_empty:
            made.adjust.CopyFrom(containers.adjustment(values, self._cpu_version))
        return made

    def _update(self, body: bytes) -> Message:
        request = self._kinds["UpdateContainerRequest"].FromString(body)
        values = self._plugin.updating(containers.pod_of(request.pod), containers.container_of(request.container))
        changed = containers.update(request.container.id, values, self._cpu_version)
        return self._kinds["UpdateContainerResponse"](update=[] if changed is None else [changed])

    def _state_changed(self, body: bytes) -> Message:
        event = self._kinds["StateChangeEvent"].FromString(body)
        if event.event == NriEvent.REMOVE_CONTAINER:
            self._plugin.removed(event.container.id)
        return self._kinds["Empty"]()

    def _remove(self, body: bytes) -> Message:
        """As runtimes with NRI 0.11 tell it; earlier ones do by `StateChange`."""
        self._plugin.removed(self._kinds["RemoveContainerRequest"].FromString(body).container.id)
        return self._kinds["Empty"]()

    async def _call(self, method: str, kind: str, **fields: object) -> bytes:
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        answer = self._calls[stream] = asyncio.get_running_loop().create_future()
        request = self._kinds["Request"](
            service=RUNTIME_SERVICE,
            method=method,
            payload=self._kinds[kind](**fields).SerializeToString(),
            timeout_nano=round(REGISTERED_WITHIN_S * 1e9),
        )
        self._send(mux.RUNTIME, stream, ttrpc.REQUEST, request)
        response = await answer
        if response.status.code != ttrpc.OK:
            raise Permanent(f"{method}: {response.status.message}")
        payload: bytes = response.payload
        return payload

    def _answered(self, message: ttrpc.TtrpcMessage) -> None:
        waiting = self._calls.pop(message.stream, None)
        if waiting is not None and not waiting.done() and message.body is not None:
            waiting.set_result(self._kinds["Response"].FromString(message.body))

    def _send(self, connection: int, stream: int, type_: int, message: Message) -> None:
        body = message.SerializeToString()
        self._writer.write(mux.frames_of(connection, ttrpc.encoded(stream, type_, body)))
