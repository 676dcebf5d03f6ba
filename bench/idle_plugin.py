"""A plugin of the container runtime that does nothing: what any plugin costs, beside the hook.

The least that a process in Python can do: it waits for bytes, finds the call by its name, and sends an answer that was
made before, with real-time priority as the hook has it. What a creation waits for it is the runtime's own work for a
plugin, two wake-ups, and the machine.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from cotenant.drivers.nri import mux, ttrpc
from cotenant.drivers.nri.messages import PLUGIN_SERVICE, RUNTIME_SERVICE, NriEvent, messages
from cotenant.services.nri.promptness import run_promptly

_READY = b"ready\n"


class IdlePlugin:
    """The plugin as a process. `index`: "00" to "99", its place among the plugins."""

    def __init__(self, runtime_socket: Path, name: str, index: str) -> None:
        self._command = [sys.executable, "-m", "bench.idle_plugin", str(runtime_socket), name, index]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Until the runtime asks it."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != _READY:
            raise SystemExit("the plugin that does nothing did not start")

    def end(self) -> None:
        """Until it has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def answer(at: str, name: str, index: str) -> None:
    """Register, and answer until the runtime closes."""
    kinds = messages()
    registered = kinds["RegisterPluginRequest"](plugin_name=name, plugin_idx=index).SerializeToString()
    request = kinds["Request"](service=RUNTIME_SERVICE, method="RegisterPlugin", payload=registered)
    events = kinds["ConfigureResponse"](events=NriEvent.CREATE_CONTAINER.bit).SerializeToString()
    nothing = kinds["Response"]().SerializeToString()
    answers = {"Configure": kinds["Response"](payload=events).SerializeToString()}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(at)
        call = ttrpc.encoded(1, ttrpc.REQUEST, request.SerializeToString())
        connection.sendall(mux.frames_of(mux.RUNTIME, call))
        frames, calls = mux.Frames(), ttrpc.Messages()
        run_promptly()
        while data := connection.recv(1 << 18):
            for which, piece in frames.feed(data):
                for message in calls.feed(piece) if which == mux.PLUGIN else ():
                    method = _method(message.body or b"")
                    body = answers.get(method, nothing)
                    connection.sendall(mux.frames_of(mux.PLUGIN, ttrpc.encoded(message.stream, ttrpc.RESPONSE, body)))
                    if method == "Synchronize":  # of an empty node: one call
                        sys.stdout.buffer.write(_READY)
                        sys.stdout.flush()


def _method(body: bytes) -> str:
    """From the head of a call: its service and then its name, each behind a tag and a length."""
    at = 2 + len(PLUGIN_SERVICE)
    return body[at + 2 : at + 2 + body[at + 1]].decode() if len(body) > at + 1 else ""


if __name__ == "__main__":
    answer(*sys.argv[1:4])
