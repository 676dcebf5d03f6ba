"""What a person asks of `cotenant keeper`, and the checks that need nothing else.

The fields are the options of the command. A refused value costs what the command line costs: nothing here imports an
engine or a client.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from cotenant.model.errors import InvalidInput
from cotenant.model.machine.knob import Knob
from cotenant.services.knobs.slice_ms import checked_slice_ms
from cotenant.services.logs import check_logging
from cotenant.services.options import COMMON, LISTENING, WORK, LogFormat, LogLevel

_GPU = re.compile(r"GPU-[0-9a-f-]{1,64}")
_OWNED_BY_PLUGINS = frozenset({"nvidia.com", "gpu.nvidia.com"})  # folders in the paths of their pipe directories


@dataclass(frozen=True, slots=True)
class KeeperArguments:
    """The command's arguments."""

    roots: Annotated[
        tuple[str, ...],
        Parameter(
            name="--root",
            help=("A group whose knobs, and those of all groups below it, may be written; may be given several times."),
            group=COMMON,
        ),
    ] = ()
    kubelet_groups: Annotated[
        Literal["", "best-effort", "all"],
        Parameter(
            help=(
                "Groups of this node's kubelet that may be written, whatever its cgroup driver calls them: that "
                "of all best-effort pods, or all; default: none."
            ),
            show_default=False,
            group=COMMON,
        ),
    ] = ""
    allow_users: Annotated[
        tuple[str, ...],
        Parameter(
            name="--allow-user",
            help="User whose processes may connect, by name or number; root always may.",
            group=COMMON,
        ),
    ] = ()
    dry_run: Annotated[
        bool, Parameter(negative=(), help="Answer and record as usual, but write no knob.", group=COMMON)
    ] = False
    zones: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Also run Control Zones, for `cotenant zone create`; keeps the capabilities to load kernel schedulers."
            ),
            group=COMMON,
        ),
    ] = False
    waits: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Tell agents who ran while services waited for a CPU, by an eBPF program; keeps the capabilities to "
                "load it, BPF and PERFMON."
            ),
            group=WORK,
        ),
    ] = False
    state_dir: Annotated[
        Path,
        Parameter(help="Folder of the lease state file, which survives a crash, and of the audit trail.", group=WORK),
    ] = Path("/var/lib/cotenant")
    socket: Annotated[Path, Parameter(help="Path of the socket for agents.", group=LISTENING)] = Path(
        "/run/cotenant/keeper.sock"
    )
    allow_groups: Annotated[
        tuple[int, ...],
        Parameter(name="--allow-gid", help="Group, by number, whose processes may connect.", group=LISTENING),
    ] = ()
    socket_group: Annotated[
        str,
        Parameter(
            help=(
                "Group that may connect to the socket, by name or number; default: that of the allowed users. "
                "Others cannot."
            ),
            show_default=False,
            group=LISTENING,
        ),
    ] = ""
    interfaces: Annotated[
        tuple[str, ...],
        Parameter(
            name="--interface",
            help="A network interface whose traffic classes may be written (tc.rate), e.g. eth0; default: none.",
            group=WORK,
        ),
    ] = ()
    resctrl_classes: Annotated[
        tuple[str, ...],
        Parameter(
            name="--resctrl-class",
            help="A resctrl group whose schemata may be written, e.g. BE; default: none.",
            group=WORK,
        ),
    ] = ()
    raise_roots: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "Also set a root's own knobs above what stood before: weights, memory protection, limits. They "
                "act on groups outside of it."
            ),
            group=WORK,
        ),
    ] = False
    gpus: Annotated[
        tuple[str, ...],
        Parameter(
            name="--gpu",
            help=(
                "UUID of an NVIDIA GPU whose power and clocks may be limited; says too that nobody else locks its "
                "clocks."
            ),
            group=WORK,
        ),
    ] = ()
    gpu_timeslices: Annotated[
        bool,
        Parameter(
            negative=(),
            help="With --gpu: also set the time-slice of these cards, which all of a card's processes get.",
            group=WORK,
        ),
    ] = False
    gpu_mig: Annotated[
        bool,
        Parameter(
            negative=(),
            help=(
                "With --gpu: also change the MIG instances of these cards, of which those that go have to be empty. "
                "The kubelet's socket of pod-resources beside --cpu-manager-state is asked."
            ),
            group=WORK,
        ),
    ] = False
    mps: Annotated[
        Path | None,
        Parameter(
            help=(
                "Pipe directory of the MPS control daemon whose clients may be limited, such as /tmp/nvidia-mps: all "
                "that start from then on."
            ),
            group=WORK,
        ),
    ] = None
    freeze: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Also suspend all processes of a group for the time of a lease (cgroup.freeze).",
            group=WORK,
        ),
    ] = False
    knobs: Annotated[
        tuple[str, ...],
        Parameter(name="--knob", help="A knob that may be written, e.g. cpu.max; default: all.", group=WORK),
    ] = ()
    never: Annotated[
        tuple[str, ...],
        Parameter(
            help="A group that may not be written, nor any above it; the keeper's own group is always included.",
            group=WORK,
        ),
    ] = ()
    longest_ttl_s: Annotated[float, Parameter(help="Longest time to live of a lease, in seconds.", group=WORK)] = 600.0
    cgroup_root: Annotated[
        Path | None, Parameter(help="Where the host's cgroups are mounted; default: from mountinfo.", group=WORK)
    ] = None
    bus: Annotated[
        Path,
        Parameter(help="Socket of the system bus: limits of systemd's units are set as their properties.", group=WORK),
    ] = Path("/run/dbus/system_bus_socket")
    cpu_manager: Annotated[
        Path,
        Parameter(
            name="--cpu-manager-state",
            help="Checkpoint of the kubelet's CPU manager; with its static policy CPU lists are left to it.",
            group=WORK,
        ),
    ] = Path("/var/lib/kubelet/cpu_manager_state")
    idle_slice_ms: Annotated[
        int,
        Parameter(
            help="Scheduling slice of tasks in best-effort groups, milliseconds, up to 100; 0: the kernel's own.",
            group=WORK,
        ),
    ] = 0
    zone_socket: Annotated[Path, Parameter(help="With --zones: path of the socket for zones.", group=LISTENING)] = Path(
        "/run/cotenant/zones.sock"
    )
    zone_state_dir: Annotated[
        Path, Parameter(help="With --zones: folder of definitions, states and logs of zones.", group=WORK)
    ] = Path("/run/cotenant/zones")
    zone_files: Annotated[
        Path | None,
        Parameter(
            help="With --zones: folder of the files that ControlZones may name: images of pods, kernels. Without it "
            "they name none.",
            group=WORK,
        ),
    ] = None
    zone_signers: Annotated[
        Path | None,
        Parameter(
            help="With --zones: folder of public keys (*.pem). Zones that name images or kernels are then of packages "
            "that one of them signed. Without it packages need no signature.",
            group=WORK,
        ),
    ] = None
    max_zones: Annotated[int, Parameter(help="With --zones: most zones at once.", group=WORK)] = 8
    max_zone_memory_mib: Annotated[
        int,
        Parameter(
            help="With --zones: most memory of the virtual machines of all zones, MiB. Keep as much back from pods: "
            "the kubelet does not know of it.",
            group=WORK,
        ),
    ] = 4096
    max_zone_vcpus: Annotated[
        int, Parameter(name="--max-zone-vcpus", help="With --zones: most vCPUs of those machines.", group=WORK)
    ] = 16
    max_zone_disk_mib: Annotated[
        int,
        Parameter(
            help="With --zones: most that images unpacked for those machines take below --zone-state-dir, MiB.",
            group=WORK,
        ),
    ] = 8192
    bpf_root: Annotated[
        Path,
        Parameter(help="With --zones: where the host's BPF file system is mounted, for kernel schedulers.", group=WORK),
    ] = Path("/sys/fs/bpf")
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"


def check(request: KeeperArguments) -> None:
    """Raises `InvalidInput` for a value that cannot be."""
    if not request.roots and not request.kubelet_groups:
        raise InvalidInput("--root", "", "one group or more below which knobs may be written, or --kubelet-groups")
    for root in request.roots:
        if not root.strip("/") or any(part in ("", ".", "..") for part in root.strip("/").split("/")):
            raise InvalidInput("--root", root, "a group below the tree's root, which itself is never written")
    checked_slice_ms("--idle-slice-ms", request.idle_slice_ms)
    if not 1 <= request.longest_ttl_s <= 86_400:
        raise InvalidInput("--longest-ttl-s", request.longest_ttl_s, "1 to 86400 seconds")
    if request.zones and request.dry_run:
        raise InvalidInput("--zones", "with --dry-run", "one of them", "a zone cannot run where no knob is written")
    if request.zones and os.environ.get("COTENANT_BPF_OBJECTS"):
        raise InvalidInput(
            "COTENANT_BPF_OBJECTS",
            os.environ["COTENANT_BPF_OBJECTS"],
            "no such variable with --zones",
            "zones load the package's own objects",
        )
    if not 1 <= request.max_zones <= 64:
        raise InvalidInput("--max-zones", request.max_zones, "1 to 64")
    for option, given, least, most in (
        ("--max-zone-memory-mib", request.max_zone_memory_mib, 0, 1 << 24),
        ("--max-zone-vcpus", request.max_zone_vcpus, 0, 4096),
        ("--max-zone-disk-mib", request.max_zone_disk_mib, 0, 1 << 24),
    ):
        if not least <= given <= most:
            raise InvalidInput(option, given, f"{least} to {most}", "0: no machine")
    for uuid in request.gpus:
        if not _GPU.fullmatch(uuid):
            raise InvalidInput("--gpu", uuid, "the UUID of a GPU, GPU-…, as nvidia-smi -L says")
    for option, given in (("--gpu-timeslices", request.gpu_timeslices), ("--gpu-mig", request.gpu_mig)):
        if given and not request.gpus:
            raise InvalidInput(option, "without --gpu", "--gpu UUID, for each card that it is meant for")
    if request.mps is not None and _OWNED_BY_PLUGINS & set(request.mps.parts):
        hint = "NVIDIA's device plugin and DRA driver set the limits of their daemons: give offline work one of its own"
        raise InvalidInput("--mps", str(request.mps), "the pipe directory of a daemon that nobody else limits", hint)
    known = {str(knob): knob for knob in Knob}
    for group in request.allow_groups:
        if group < 0:
            raise InvalidInput("--allow-gid", group, "the number of a group, 0 or more")
    if request.state_dir.exists() and not request.state_dir.is_dir():
        raise InvalidInput("--state-dir", str(request.state_dir), "a folder", "a file of that name is in the way")
    if request.socket.exists() and not request.socket.is_socket():
        raise InvalidInput("--socket", str(request.socket), "the path of a socket", "something else is there")
    if request.cgroup_root is not None and not request.cgroup_root.is_dir():
        raise InvalidInput("--cgroup-root", str(request.cgroup_root), "a folder with mounted cgroups")
    for root in request.roots:
        if not root.strip("/"):
            raise InvalidInput("--root", root, "a group below the tree's root", "the root itself is never written")
    for name in request.knobs:
        if name not in known:
            raise InvalidInput("--knob", name, f"one of {', '.join(known)}")
    check_logging(request.log_level, request.log_format)
