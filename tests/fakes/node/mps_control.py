"""A stand-in for `nvidia-cuda-mps-control`, a program that keeps what it was told in the pipe directory.

It behaves as NVIDIA documents: without a daemon it says so and fails; a default holds for servers to come, a server's
own value for its clients to come; a limit of memory is shown in GiB from 1 GiB on, rounded down (seen with driver
595.91), and cannot be removed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

_PROGRAM = """#!{python}
import json, os, re, sys
from pathlib import Path
pipe = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
if not (pipe / "control").exists():
    print("Cannot find MPS control daemon process")
    sys.exit(1)
state = json.loads((pipe / "state.json").read_text())
words = sys.stdin.readline().split()
command, rest = words[0], words[1:]
with (pipe / "asked").open("a") as asked:
    print(*words, file=asked)

def shown(limit):
    if limit is None:
        return "unlimited"
    return f"{{limit // 1024}}G" if limit >= 1024 else f"{{limit}}M"

if command == "get_server_list":
    print(*state["servers"], sep="\\n")
elif command == "get_default_active_thread_percentage":
    print(f"{{float(state['threads'])}}")
elif command == "set_default_active_thread_percentage":
    state["threads"] = float(rest[0])
elif command == "get_default_device_pinned_mem_limit":
    print(shown(state["memory"].get(rest[0])))
elif command == "set_default_device_pinned_mem_limit":
    amount, unit = re.fullmatch(r"(\\d+)([MG])", rest[1]).groups()
    state["memory"][rest[0]] = int(amount) * (1024 if unit == "G" else 1)
elif rest and rest[0] not in state["servers"]:
    print(f"Failed to find server {{rest[0]}}", file=sys.stderr)
    sys.exit(1)
elif command == "get_active_thread_percentage":
    print(f"{{float(state['servers'][rest[0]]['threads'])}}")
elif command == "set_active_thread_percentage":
    state["servers"][rest[0]]["threads"] = float(rest[1])
else:
    print(f"Unrecognized command: {{command}}", file=sys.stderr)
    sys.exit(1)
(pipe / "state.json").write_text(json.dumps(state))
"""


class FakeMps:
    """`program`: the stand-in; `pipe`: its daemon's directory, which runs from `start` on."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "bin" / "nvidia-cuda-mps-control"
        self.pipe = folder / "pipe"
        self.program.parent.mkdir()
        self.pipe.mkdir()
        self.program.write_text(_PROGRAM.format(python=sys.executable))
        self.program.chmod(0o755)

    def start(self, servers: tuple[str, ...] = (), memory_mib: dict[str, int] | None = None) -> None:
        """A daemon that knows nothing of an earlier one."""
        (self.pipe / "control").unlink(missing_ok=True)
        (self.pipe / f"control.{len(list(self.pipe.iterdir()))}").touch()  # the next one has another inode
        (self.pipe / "control").touch()
        state = {
            "servers": {name: {"threads": 100.0} for name in servers},
            "threads": 100.0,
            "memory": memory_mib or {},
        }
        (self.pipe / "state.json").write_text(json.dumps(state))

    def quit(self) -> None:
        (self.pipe / "control").unlink()

    @property
    def state(self) -> dict[str, object]:
        return dict(json.loads((self.pipe / "state.json").read_text()))
