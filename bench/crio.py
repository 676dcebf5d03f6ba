"""A CRI-O of one's own, for tests and benchmarks: folders, socket and groups apart from any other on the machine.

Its programs are looked for in the folder that COTENANT_TEST_CRIO names and on the path: crio, pinns, conmon, runc,
podman (which puts the image into its storage, since CRI-O only pulls), and a static busybox for the containers to run.
Nothing is installed and nothing is fetched.
Limits: no network of pods' own.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.containerd import IMAGE, Runtime, programs, running, write_image

VARIABLE = "COTENANT_TEST_CRIO"
PROGRAMS = ("crio", "pinns", "conmon", "runc", "podman", "busybox")


@contextmanager
def crio(folder: Path, hook: Path | None = None, systemd: bool = False) -> Iterator[Runtime]:
    """A daemon that lives while the block does. `hook`: where it listens for plugins (NRI); `systemd`: groups are made
    by systemd, and pods' are slices. Raises `NotHere`.
    """
    found = programs(PROGRAMS, VARIABLE)
    socket = str(folder / "c.sock")
    (folder / "config.toml").write_text(_config(folder, socket, found, hook, systemd))
    (folder / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    write_image(folder / "image.tar", found["busybox"])

    def prepare() -> None:
        with tempfile.TemporaryDirectory(prefix="cotenant-") as short:  # podman takes 50 characters at most
            stores = ["--root", str(folder / "root"), "--runroot", short, "--storage-driver", "vfs"]
            load = [found["podman"], *stores, "load", "--signature-policy", str(folder / "policy.json")]
            subprocess.run([*load, "-i", str(folder / "image.tar")], capture_output=True, check=True, timeout=60)

    command = [found["crio"], "--config", str(folder / "config.toml"), "--config-dir", ""]
    with running(folder, socket, command, prepare, VARIABLE, prefix="crio-") as made:
        made.systemd = systemd
        yield made


def _config(folder: Path, socket: str, found: dict[str, str], hook: Path | None, systemd: bool) -> str:
    return f"""
[crio]
root = "{folder}/root"
runroot = "{folder}/state"
storage_driver = "vfs"
log_dir = "{folder}/logs"
version_file = "{folder}/version"
version_file_persist = "{folder}/version-persist"
clean_shutdown_file = "{folder}/clean.shutdown"
internal_wipe = false
[crio.api]
listen = "{socket}"
stream_address = "127.0.0.1"
stream_port = "0"
[crio.runtime]
cgroup_manager = "{"systemd" if systemd else "cgroupfs"}"
conmon_cgroup = "pod"
apparmor_profile = "unconfined"
log_level = "warn"
hooks_dir = []
pinns_path = "{found["pinns"]}"
namespaces_dir = "{folder}/namespaces"
container_exits_dir = "{folder}/exits"
container_attach_socket_dir = "{folder}/attach"
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_path = "{found["runc"]}"
runtime_root = "{folder}/runc"
monitor_path = "{found["conmon"]}"
monitor_cgroup = "pod"
[crio.image]
pause_image = "{IMAGE}"
pause_command = ""
signature_policy = "{folder}/policy.json"
[crio.network]
network_dir = "{folder}/cni"
plugin_dirs = ["{folder}/cni"]
[crio.nri]
enable_nri = {"false" if hook is None else "true"}
nri_listen = "{hook or folder / "nri.sock"}"
nri_plugin_dir = "{folder}/nri/plugins"
nri_plugin_config_dir = "{folder}/nri/conf.d"
"""
