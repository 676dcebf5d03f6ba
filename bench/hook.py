"""The runtime hook as a process, and the pods at which it is measured: best effort by label, with a request of a whole
CPU, so that a kubelet would give them 1024 shares.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.containerd import Pod, Runtime
from cotenant.drivers.cgroup.layout import Hierarchy, detect
from cotenant.drivers.nri.state_file import read_state

GROUP = "cotenant-bench-nri"
PODS = f"{GROUP}/kubepods/burstable"
BEST_EFFORT = {"koordinator.sh/qosClass": "BE"}
OF_A_CPU = {"cpu_shares": 1024, "cpu_period": 100_000}
LEAST = {"cpu.shares": "2", "cpu.weight": "1"}
COMMAND = (sys.executable, "-c", "import sys; from cotenant.cli.main import main; sys.exit(main())", "nri")


class HookProcess:
    """`cotenant nri` as a process."""

    def __init__(
        self, folder: Path, runtime_socket: Path, listen: str = "", pages: str = "", **settings: object
    ) -> None:
        """`listen`: where its agent would be; `pages`: its own; `settings`: further ones of `runtime_hook`."""
        self.state = folder / "nri.json"
        self.config = folder / "agent.json"
        hook = {"socket": str(runtime_socket), "state_file": str(self.state), "listen": pages, **settings}
        config = {"mode": "act", "writable": [GROUP], "listen": listen, "runtime_hook": hook}
        self.config.write_text(json.dumps(config))  # which is YAML, too
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        self.process = subprocess.Popen([*COMMAND, f"--config={self.config}", "--log-level=error"])
        while wait and not ((state := read_state(self.state)) and state.runtime):
            if self.process.poll() is not None:
                raise SystemExit("the hook did not start")
            time.sleep(0.02)

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(by)
            self.process.wait()
            self.process = None


def cpu_tree() -> tuple[Hierarchy, str]:
    """The tree of the CPU controller, and its file of the weight."""
    tree = detect().by_controller["cpu"]
    return tree, "cpu.shares" if tree.version == 1 else "cpu.weight"


def pod_of(runtime: Runtime, prefix: str, number: int) -> Pod:
    """A pod that runs."""
    uid = uid_of(number)
    return runtime.pod(uid, f"{prefix}-{number}", f"{PODS}/pod{uid}", BEST_EFFORT, {})


def uid_of(number: int) -> str:
    """A pod's uid."""
    return f"00000000-0000-0000-0000-{number:012d}"
