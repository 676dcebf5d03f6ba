"""A containerd of one's own, for tests and benchmarks: folders, socket and groups apart from any other on the machine.

Its programs are looked for in the folder that COTENANT_TEST_CONTAINERD names and on the path: containerd, ctr,
containerd-shim-runc-v2, runc, and a static busybox for the containers to run. Nothing is installed and nothing is
fetched.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from cotenant.drivers.cri.making import making_messages
from cotenant.drivers.cri.messages import SERVICE
from cotenant.drivers.nri.containers import group_of_parent

VARIABLE = "COTENANT_TEST_CONTAINERD"
PROGRAMS = ("containerd", "ctr", "containerd-shim-runc-v2", "runc", "busybox")
IMAGE = "cotenant.test/busybox:1"
MONITORS = ("containerd-shim-runc-v2", "conmon")
FIRST_WITH_NRI = (1, 7)
NAMESPACES = {"network": 2, "pid": 1}  # the node's; the container's own, as a kubelet asks for
SLEEP = ("/busybox", "sleep", "600")


class NotHere(Exception):
    """This machine lacks something that it takes; the text says what."""


@dataclass
class Daemon:
    """A process that can be ended and started again; what it started lives on."""

    command: Sequence[str]
    log: Path
    path: str  # where it looks for programs
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env={**os.environ, "PATH": self.path})

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Until it has ended."""
        if self.process is None:
            return
        self.process.send_signal(by)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def said(self) -> str:
        """Its last words."""
        return self.log.read_text(errors="replace")[-1000:]


@dataclass
class Pod:
    """A pod that runs. `config` is repeated at each of its containers."""

    sandbox: str
    config: dict[str, Any]


@dataclass
class Runtime:
    """The daemon."""

    socket: str
    folder: Path
    channel: Any
    daemon: Daemon
    prefix: str = ""  # of a container's group, before its id
    systemd: bool = False  # pods' groups are slices
    kinds: Any = field(default_factory=making_messages)

    def ask(self, method: str, **fields: Any) -> Any:
        """One call of its interface (CRI)."""
        call = self.channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=self.kinds[f"{method}Request"].SerializeToString,
            response_deserializer=self.kinds[f"{method}Response"].FromString,
        )
        return call(self.kinds[f"{method}Request"](**fields), timeout=60, wait_for_ready=True)

    def pod(self, uid: str, name: str, parent: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Pod:
        """A pod in the namespace `shop`, on the node's network; its groups are below `parent`."""
        config = {
            "metadata": {"name": name, "uid": uid, "namespace": "shop"},
            "log_directory": str(self.folder / "logs"),
            "labels": dict(labels),
            "annotations": dict(annotations),
            "linux": {"cgroup_parent": f"/{parent}", "security_context": {"namespace_options": NAMESPACES}},
        }
        return Pod(self.ask("RunPodSandbox", config=config).pod_sandbox_id, config)

    def container(
        self,
        pod: Pod,
        resources: Mapping[str, int],
        command: Sequence[str] = SLEEP,
        name: str = "work",
        variables: Mapping[str, str] | None = None,
        mounts: Mapping[str, str] | None = None,
    ) -> str:
        """A container of a pod, created and not started: its id. `mounts`: paths inside it, of folders of the host."""
        config = {
            "metadata": {"name": name},
            "image": {"image": IMAGE, "user_specified_image": IMAGE},
            "command": list(command),
            "envs": [{"key": key, "value": value} for key, value in (variables or {}).items()],
            "mounts": [
                {"container_path": inside, "host_path": outside, "readonly": True}
                for inside, outside in (mounts or {}).items()
            ],
            "labels": {"io.kubernetes.container.name": name},
            "log_path": f"{pod.sandbox}-{name}.log",
            "linux": {"resources": dict(resources), "security_context": {"namespace_options": NAMESPACES}},
        }
        made = self.ask("CreateContainer", pod_sandbox_id=pod.sandbox, config=config, sandbox_config=pod.config)
        container: str = made.container_id
        return container

    def start(self, container: str) -> None:
        """Run a container's first instruction."""
        self.ask("StartContainer", container_id=container)

    def log_of(self, pod: Pod, name: str = "work") -> str:
        """What a container has written so far."""
        path = self.folder / "logs" / f"{pod.sandbox}-{name}.log"
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return "\n".join(line.split(" ", 3)[-1] for line in lines)

    def group_of(self, pod: Pod, container: str) -> str:
        """A container's group."""
        if self.systemd:
            slice_ = group_of_parent(pod.config["linux"]["cgroup_parent"])
            return f"{slice_}/{self.prefix or 'cri-containerd-'}{container}.scope"
        return f"{pod.config['linux']['cgroup_parent'].strip('/')}/{self.prefix}{container}"

    def restart(self) -> None:
        """The daemon alone, until it answers."""
        self.daemon.end()
        self.daemon.start()
        self.ask("Version")

    def end_container(self, container: str) -> None:
        """End and remove it, without a pardon."""
        self.ask("StopContainer", container_id=container, timeout=0)
        self.ask("RemoveContainer", container_id=container)

    def remove(self, pod: Pod) -> None:
        """End a pod with its containers."""
        self.end(pod.sandbox)

    def end(self, sandbox: str) -> None:
        """End a pod by its sandbox. CRI-O would wait for its containers, whose first process ignores SIGTERM."""
        for container in self.ask("ListContainers").containers:
            if container.pod_sandbox_id == sandbox:
                self.ask("StopContainer", container_id=container.id, timeout=0)
        self.ask("StopPodSandbox", pod_sandbox_id=sandbox)
        self.ask("RemovePodSandbox", pod_sandbox_id=sandbox)


def programs(names: Sequence[str] = PROGRAMS, variable: str = VARIABLE) -> dict[str, str]:
    """The programs by name. Raises `NotHere`."""
    found = {name: shutil.which(name, path=search(variable)) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise NotHere(f"no {', '.join(missing)}; {variable} may name their folder")
    return {name: path for name, path in found.items() if path is not None}


def version_of(containerd: str) -> tuple[int, int]:
    """Major and minor version of a containerd."""
    told = subprocess.run([containerd, "--version"], capture_output=True, text=True, check=True, timeout=20).stdout
    match = re.search(r"\s(\d+)\.(\d+)\.", told)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@contextmanager
def containerd(
    folder: Path, hook: Path | None = None, metrics_port: int = 0, systemd: bool = False
) -> Iterator[Runtime]:
    """A daemon that lives while the block does. `hook`: where it listens for plugins (NRI); `metrics_port`: of
    /v1/metrics on this machine, 0 = none; `systemd`: groups are made by systemd, and pods' are slices. Raises
    `NotHere`.
    """
    found = programs()
    version = version_of(found["containerd"])
    if hook is not None and version < FIRST_WITH_NRI:
        raise NotHere(
            f"containerd {version[0]}.{version[1]} has no NRI; {VARIABLE} may name a folder with 1.7 or later"
        )
    socket = str(folder / "c.sock")
    (folder / "config.toml").write_text(_config(folder, socket, found["runc"], hook, metrics_port, systemd))
    command = [found["containerd"], "--config", str(folder / "config.toml"), "--log-level", "warn"]

    def prepare() -> None:
        write_image(folder / "image.tar", found["busybox"])
        import_it = [found["ctr"], "-a", socket, "-n", "k8s.io", "images", "import", str(folder / "image.tar")]
        subprocess.run(import_it, capture_output=True, check=True, timeout=60)

    with running(folder, socket, command, prepare) as made:
        made.systemd = systemd
        yield made


@contextmanager
def running(
    folder: Path,
    socket: str,
    command: Sequence[str],
    prepare: Callable[[], None],
    variable: str = VARIABLE,
    prefix: str = "",
) -> Iterator[Runtime]:
    """A runtime's daemon while the block lives, once `prepare` is done with it; then no pod, shim or monitor of it is
    left. Raises `NotHere` where it does not start.
    """
    daemon = Daemon(command, folder / "log", search(variable))
    daemon.start()
    channel = grpc.insecure_channel(f"unix://{socket}", options=(("grpc.use_local_subchannel_pool", 1),))
    made = Runtime(socket, folder, channel, daemon, prefix)
    try:
        try:
            made.ask("Version")
            prepare()
        except (grpc.RpcError, subprocess.SubprocessError) as error:
            told = getattr(error, "stderr", None) or b""
            raise NotHere(f"{command[0]} does not start here: {error}\n{told.decode()}\n{daemon.said()}") from error
        yield made
        for sandbox in made.ask("ListPodSandbox").items:
            made.end(sandbox.id)
    finally:
        channel.close()
        daemon.end()
        _end_left(str(folder))


def remove_everywhere(group: str) -> None:
    """Remove a group in every hierarchy: runc also makes groups in those that we have no use for."""
    for tree in Path("/sys/fs/cgroup").iterdir():
        for folder, _, _ in os.walk(tree / group, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        with suppress(OSError):
            os.rmdir(tree / group.partition("/")[0])


def search(variable: str = VARIABLE) -> str:
    """Where programs are looked for: the folder that a variable names, and the path."""
    return os.pathsep.join((os.environ.get(variable, ""), os.environ.get("PATH", "")))


def _config(folder: Path, socket: str, runc: str, hook: Path | None, metrics_port: int, systemd: bool) -> str:
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    nri = f"""
[plugins."io.containerd.nri.v1.nri"]
  disable = {"true" if hook is None else "false"}
  disable_connections = false
  plugin_config_path = "{folder}/nri/conf.d"
  plugin_path = "{folder}/nri/plugins"
  socket_path = "{hook or folder / "nri.sock"}"
"""
    return f"""
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{socket}"
[ttrpc]
  address = "{socket}.ttrpc"
[metrics]
  address = "{f"127.0.0.1:{metrics_port}" if metrics_port else ""}"
[{cri}]
  sandbox_image = "{IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [{cri}.cni]
    bin_dir = "{folder}/cni"
    conf_dir = "{folder}/cni"
  [{cri}.containerd]
    snapshotter = "native"
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [{cri}.containerd.runtimes.runc.options]
    BinaryName = "{runc}"
    SystemdCgroup = {str(systemd).lower()}
{"" if hook is None else nri}"""


def write_image(path: Path, busybox: str) -> None:
    """An image of one static program, as `docker save` writes it; started by itself it sleeps."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name in ("proc", "sys", "dev", "etc", "tmp"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(folder)
        tar.add(busybox, "busybox")
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
            "os": "linux",
            "config": {"Entrypoint": ["/busybox", "sleep", "600"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
        }
    ).encode()
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    with tarfile.open(path, "w") as tar:
        parts = {"config.json": config, "layer.tar": layer.getvalue(), "manifest.json": json.dumps(manifest).encode()}
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def _end_left(folder: str) -> None:
    """Shims and monitors that outlived a daemon: processes of other programs that have its folder in their command."""
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                words = (path / "cmdline").read_bytes().split(b"\0")
                program = os.path.basename(words[0]).decode()
                if program in MONITORS and any(folder.encode() in word for word in words):
                    os.kill(int(path.name), signal.SIGKILL)
