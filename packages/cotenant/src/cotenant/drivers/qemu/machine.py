"""A machine under QEMU whose root is a folder of this host with what it may read of it, read-only.

A guest must run programs of this host without being able to change it, its console must be kept, and all that it took
must come back, whatever ends it. Virtiofsd serves bind mounts that are read-only in a mount namespace of its own, so a
guest that remounts its root for writing is refused by this host's kernel. QEMU and virtiofsd are in the groups of
cgroups given, before they run a line of their own; both are killed at the end, also when this process is
(PR_SET_PDEATHSIG). The console is lines for a callback; QMP ends the machine. Ports are forwarded by QEMU's user
network, which reaches nothing of this host or beyond unless `outbound` is set.
Limits: amd64 Linux; the C virtiofsd of QEMU before 8 (Debian 12: qemu-system-common); file systems mounted below a
shared path are not seen; TCP only; the guest's root reads the shared paths as this host's root.

Source: QEMU 7.2 manual (system/invocation, interop/virtiofsd, interop/qmp-spec).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cotenant.drivers.qemu.guest_root import WHOLE, build_root
from cotenant.model.errors import Transient, Unsupported

VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
AGENT_PORT = "cotenant.agent"
_SOCKET_WITHIN_S = 30.0
_LONGEST_LINE = 4096
_LONGEST_REASON = 300
# The groups' cgroup.procs, then the command: the shell becomes a member, then the command itself, which ends with this
# process.
_JOIN = (
    'n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ > "$1" || exit 125; shift; n=$((n-1)); done; exec setpriv '
    '--pdeathsig KILL "$@"'
)
# the root, the number of paths and the paths, then the command
_READ_ONLY = (
    'root=$1; n=$2; shift 2; mount --bind "$root" "$root" || exit 125; while [ "$n" -gt 0 ]; do '
    'mount --bind "$1" "$root$1" && mount -o remount,bind,ro "$root$1" || exit 125; shift; n=$((n-1)); done; '
    'mount -o remount,bind,ro "$root" && exec "$@"'
)
_WHOLE = 'root=$1; shift 2; mount --bind / "$root" && mount -o remount,bind,ro "$root" && exec "$@"'
# the check of the timer counts ticks against a loop, and an emulated CPU that waits for this host's panics in it
COMMAND_LINE = "console=ttyS0 rdinit=/init panic=-1 quiet no_timer_check psi=1 cgroup_no_v1=all"


@dataclass(frozen=True, slots=True)
class Forward:
    """A TCP port of this host that is the guest's. `address`: of this host."""

    address: str
    host_port: int
    guest_port: int


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """One machine. `folder`: its sockets; `accel`: kvm or tcg; `procs`: files that QEMU and virtiofsd are written
    into before they start; `shared`: paths of this host that its root has, `/`: all; `cmdline`: of its kernel,
    after the usual; `counted`: its clock is its instructions, 4 ns each, and idle time costs nothing, so that figures
    do not depend on this host (TCG, one CPU runs at a time); `network`: it has an interface, with `forwards` and, with
    `outbound`, a way out; `threads`: of a core, of which so many of its CPUs are.
    """

    name: str
    kernel: Path
    folder: Path
    memory_mib: int
    cpus: int
    accel: str
    procs: tuple[Path, ...] = ()
    shared: tuple[Path, ...] = (WHOLE,)
    cmdline: str = ""
    network: bool = False
    forwards: tuple[Forward, ...] = ()
    outbound: bool = False
    counted: bool = False
    threads: int = 1


def missing() -> str:
    """What this host lacks for a machine; "" where it has all."""
    if os.geteuid() != 0 or not _has_sys_admin():
        return "root with CAP_SYS_ADMIN, for the read-only mount of the guest's root"
    for name, package in (("qemu-system-x86_64", "qemu-system-x86"), ("busybox", "busybox-static")):
        if shutil.which(name) is None:
            return f"{name} ({package})"
    for name in ("unshare", "mount", "setpriv"):
        if shutil.which(name) is None:
            return f"{name} (util-linux)"
    if not VIRTIOFSD.exists():
        return f"{VIRTIOFSD} (qemu-system-common)"
    # the loader that a dynamic program names follows its headers
    if b"/ld-linux" in Path(str(shutil.which("busybox"))).read_bytes()[:4096]:
        return "a static busybox (busybox-static)"
    return ""


def _has_sys_admin() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(effective, 16) >> 21 & 1)


class VirtualMachine:
    """Starts once, ends once. `console`: called with each line of the guest's console; `fill`: makes folders of the
    guest's root, each with its path, in the folder that it is given.
    """

    def __init__(
        self,
        spec: MachineSpec,
        initrd: bytes,
        console: Callable[[str], None],
        fill: Callable[[Path], Sequence[tuple[str, Path]]] = lambda place: (),
    ) -> None:
        self.spec = spec
        self._fill = fill
        self._initrd = initrd
        self._console = console
        self._share: asyncio.subprocess.Process | None = None
        self._qemu: asyncio.subprocess.Process | None = None
        self._reading: list[asyncio.Task[None]] = []
        self._said = ""  # the last line of either process

    @property
    def agent_socket(self) -> Path:
        """Where the guest's virtio-serial port is connected to."""
        return self.spec.folder / "agent.sock"

    @property
    def pid(self) -> int:
        """QEMU's process."""
        assert self._qemu is not None
        return self._qemu.pid

    async def start(self) -> None:
        """Start both processes. Raises `Unsupported` or `Transient`; what was started then is ended."""
        if lack := missing():
            raise Unsupported("a virtual machine", lack)
        folder = self.spec.folder
        root = folder / "root"
        shutil.rmtree(root, ignore_errors=True)  # of a process that was killed
        root.mkdir(parents=True)
        folder.chmod(0o700)
        for name in ("fs.sock", "agent.sock", "qmp.sock"):
            (folder / name).unlink(missing_ok=True)
        (folder / "initrd").write_bytes(self._initrd)
        try:
            binds = await self._built(root)
            script = _WHOLE if WHOLE in self.spec.shared else _READ_ONLY
            words = [str(root), str(len(binds)), *map(str, binds), *self._virtiofsd(root)]
            self._share = await self._run(["unshare", "--mount", "sh", "-c", script, "sh", *words])
            await self._appears(folder / "fs.sock", self._share, "virtiofsd")
            self._qemu = await self._run(self._command())
            await self._appears(self.agent_socket, self._qemu, "QEMU")
        except BaseException:
            await self.stop()
            raise

    async def wait(self) -> int:
        """Until QEMU ends; its exit status."""
        assert self._qemu is not None
        return await self._qemu.wait()

    @property
    def share_pid(self) -> int:
        """Virtiofsd's process."""
        assert self._share is not None
        return self._share.pid

    @property
    def trace_log(self) -> Path:
        """Where QEMU writes the events that are traced."""
        return self.spec.folder / "trace.log"

    async def control(self, command: str, **arguments: object) -> object:
        """Run one QMP command. Raises `Transient` where the machine does not answer."""
        try:
            async with asyncio.timeout(5):
                reader, writer = await asyncio.open_unix_connection(self.spec.folder / "qmp.sock")
                try:
                    await reader.readline()  # its greeting
                    for name, given in (("qmp_capabilities", {}), (command, arguments)):
                        writer.write(json.dumps({"execute": name, "arguments": given}).encode() + b"\n")
                        answer = json.loads(await reader.readline())
                        while "event" in answer:
                            answer = json.loads(await reader.readline())
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError) as error:
            raise Transient(f"the machine {self.spec.name} does not answer QMP: {error or 'timeout'}") from error
        if "error" in answer:
            raise Transient(f"QMP {command}: {answer['error'].get('desc', '')}")
        return answer.get("return")

    async def stop(self) -> None:
        """End both processes and remove the folder. Idempotent."""
        for process in (self._qemu, self._share):
            if process is not None and process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        for task in self._reading:
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(task, 5)
        self._reading = []
        shutil.rmtree(self.spec.folder, ignore_errors=True)

    async def _built(self, root: Path) -> tuple[Path, ...]:
        """The root's binds. A start that is cancelled waits: a thread that goes on would make files anew."""
        building = asyncio.ensure_future(asyncio.to_thread(self._build, root))
        try:
            return await asyncio.shield(building)
        except asyncio.CancelledError:
            await asyncio.wait({building})
            raise

    def _build(self, root: Path) -> tuple[Path, ...]:
        if WHOLE in self.spec.shared:
            return ()
        making = self.spec.folder / "making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        return build_root(root, self.spec.shared, self._fill(making))

    def _network(self) -> list[str]:
        spec = self.spec
        if not spec.network:
            return []
        options = ["user,id=net", f"restrict={'off' if spec.outbound else 'on'}", "ipv6=off"]
        options += [
            f"hostfwd=tcp:{forward.address}:{forward.host_port}-:{forward.guest_port}" for forward in spec.forwards
        ]
        return ["-netdev", ",".join(options), "-device", "virtio-net-pci,netdev=net,romfile="]

    def _virtiofsd(self, root: Path) -> list[str]:
        options = (f"source={root}", "sandbox=chroot", "cache=always", "log_level=err")
        shared = [word for option in options for word in ("-o", option)]
        return [str(VIRTIOFSD), f"--socket-path={self.spec.folder / 'fs.sock'}", *shared, "--thread-pool-size=1"]

    def _command(self) -> list[str]:
        spec, folder = self.spec, self.spec.folder
        accel = (
            ["-accel", "kvm", "-cpu", "host"] if spec.accel == "kvm" else ["-accel", "tcg,thread=multi", "-cpu", "max"]
        )
        if spec.counted:
            accel = ["-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=2,sleep=off", "-rtc", "clock=vm"]
        memory = f"{spec.memory_mib}M"
        return [
            str(shutil.which("qemu-system-x86_64")),
            *("-name", f"zone-{spec.name},debug-threads=on", "-machine", "q35,memory-backend=mem", *accel),
            *("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"),
            *(
                "-m",
                memory,
                "-object",
                f"memory-backend-memfd,id=mem,size={memory},share=on",
                "-smp",
                self._processors(),
            ),
            *("-display", "none", "-nodefaults", "-no-user-config", "-no-reboot"),
            *("-chardev", "file,id=console,path=/dev/fd/1,append=on", "-serial", "chardev:console"),
            *("-D", str(self.trace_log)),
            *("-qmp", f"unix:{folder / 'qmp.sock'},server=on,wait=off"),
            *("-chardev", f"socket,id=agent,path={self.agent_socket},server=on,wait=off"),
            *("-device", "virtio-serial-pci", "-device", f"virtserialport,chardev=agent,name={AGENT_PORT}"),
            *(
                "-chardev",
                f"socket,id=fs,path={folder / 'fs.sock'}",
                "-device",
                "vhost-user-fs-pci,chardev=fs,tag=host",
            ),
            *("-kernel", str(spec.kernel), "-initrd", str(folder / "initrd")),
            *self._network(),
            *("-append", f"{COMMAND_LINE} {spec.cmdline}".rstrip()),
        ]

    def _processors(self) -> str:
        cpus, threads = self.spec.cpus, self.spec.threads
        return str(cpus) if threads == 1 else f"{cpus},sockets=1,cores={cpus // threads},threads={threads}"

    async def _run(self, command: Sequence[str]) -> asyncio.subprocess.Process:
        procs = [str(path) for path in self.spec.procs]
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", _JOIN, "sh", str(len(procs)), *procs, *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=1 << 20,
        )
        self._reading.append(asyncio.create_task(self._read(process), name=f"console of {self.spec.name}"))
        return process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        rest = b""
        while data := await process.stdout.read(1 << 16):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                if text := line.decode(errors="replace").strip():
                    self._said = text[:_LONGEST_LINE]
                    self._console(self._said)

    async def _appears(self, path: Path, process: asyncio.subprocess.Process, what: str) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SOCKET_WITHIN_S):
                while not path.exists() and process.returncode is None:
                    await asyncio.sleep(0.02)
        if process.returncode is not None or not path.exists():
            if process.returncode is not None:
                await asyncio.wait(self._reading[-1:], timeout=_SOCKET_WITHIN_S)  # its last line, which says why
            why = f": {self._said[:_LONGEST_REASON]}" if process.returncode is not None and self._said else ""
            raise Transient(f"{what} did not start{why}; the zone's log has all that it said")
