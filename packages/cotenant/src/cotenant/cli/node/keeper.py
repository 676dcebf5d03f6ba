"""`cotenant keeper`: the process that is allowed to write knobs, and that restores each one.

Only signatures and help texts are here; what the command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from cotenant.cli.options import LogFormat, LogLevel


def keeper(
    *,
    root: Annotated[
        tuple[str, ...],
        Parameter(
            help="A group whose knobs, and those of all groups below it, may be written; may be given several times."
        ),
    ] = (),
    kubelet_groups: Annotated[
        Literal["", "best-effort", "all"],
        Parameter(
            help="Groups of this node's kubelet that may be written, whatever its cgroup driver calls them: that of all best-effort pods, or all; default: none.",
            show_default=False,
        ),
    ] = "",
    state_dir: Annotated[
        Path, Parameter(help="Folder of the lease state file, which survives a crash, and of the audit trail.")
    ] = Path("/var/lib/cotenant"),
    socket: Annotated[Path, Parameter(help="Path of the socket for agents.")] = Path("/run/cotenant/keeper.sock"),
    allow_user: Annotated[
        tuple[str, ...], Parameter(help="User whose processes may connect, by name or number; root always may.")
    ] = (),
    allow_gid: Annotated[tuple[int, ...], Parameter(help="Group, by number, whose processes may connect.")] = (),
    socket_group: Annotated[
        str,
        Parameter(
            help="Group that may connect to the socket, by name or number; default: that of the allowed users. Others cannot.",
            show_default=False,
        ),
    ] = "",
    interface: Annotated[
        tuple[str, ...],
        Parameter(help="A network interface whose traffic classes may be written (tc.rate), e.g. eth0; default: none."),
    ] = (),
    resctrl_class: Annotated[
        tuple[str, ...], Parameter(help="A resctrl group whose schemata may be written, e.g. BE; default: none.")
    ] = (),
    raise_roots: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Also set a root's own knobs above what stood before: weights, memory protection, limits. They act on groups outside of it.",
        ),
    ] = False,
    knob: Annotated[tuple[str, ...], Parameter(help="A knob that may be written, e.g. cpu.max; default: all.")] = (),
    never: Annotated[
        tuple[str, ...],
        Parameter(help="A group that may not be written, nor any above it; the keeper's own group is always included."),
    ] = (),
    longest_ttl_s: Annotated[float, Parameter(help="Longest time to live of a lease, in seconds.")] = 600.0,
    cgroup_root: Annotated[
        Path | None, Parameter(help="Where the host's cgroups are mounted; default: from mountinfo.")
    ] = None,
    bus: Annotated[
        Path, Parameter(help="Socket of the system bus: limits of systemd's units are set as their properties.")
    ] = Path("/run/dbus/system_bus_socket"),
    cpu_manager_state: Annotated[
        Path,
        Parameter(help="Checkpoint of the kubelet's CPU manager; with its static policy CPU lists are left to it."),
    ] = Path("/var/lib/kubelet/cpu_manager_state"),
    idle_slice_ms: Annotated[
        int,
        Parameter(
            help="Scheduling slice of tasks in best-effort groups, milliseconds, up to 100; 0: the kernel's own."
        ),
    ] = 0,
    dry_run: Annotated[bool, Parameter(negative=(), help="Answer and record as usual, but write no knob.")] = False,
    zones: Annotated[
        bool,
        Parameter(
            negative=(),
            help="Also run Control Zones, for `cotenant zone create`; keeps the capabilities to load kernel schedulers.",
        ),
    ] = False,
    zone_socket: Annotated[Path, Parameter(help="With --zones: path of the socket for zones.")] = Path(
        "/run/cotenant/zones.sock"
    ),
    zone_state_dir: Annotated[
        Path, Parameter(help="With --zones: folder of definitions, states and logs of zones.")
    ] = Path("/run/cotenant/zones"),
    most_zones: Annotated[int, Parameter(help="With --zones: most zones at once.")] = 8,
    bpf_root: Annotated[
        Path, Parameter(help="With --zones: where the host's BPF file system is mounted, for kernel schedulers.")
    ] = Path("/sys/fs/bpf"),
    log_level: LogLevel = "info",
    log_format: LogFormat = "text",
) -> int:
    """Write knobs for an unprivileged agent under leases: recorded on disk, read back, and restored.

    Knobs left by an earlier keeper are restored before the first request is served. Exit status: 0 after SIGTERM or Ctrl-C with everything restored, 1 where something could not be restored, 2 bad input.
    """
    from cotenant.drivers.kubelet.roots import KubeletGroups
    from cotenant.services.keeper import main

    return main.run(
        main.KeeperArguments(
            roots=root,
            kubelet_groups=KubeletGroups(kubelet_groups) if kubelet_groups else None,
            state_dir=state_dir,
            socket=socket,
            allow_users=allow_user,
            allow_groups=allow_gid,
            socket_group=socket_group,
            interfaces=interface,
            resctrl_classes=resctrl_class,
            raise_roots=raise_roots,
            knobs=knob,
            never=never,
            longest_ttl_s=longest_ttl_s,
            cgroup_root=cgroup_root,
            bus=bus,
            cpu_manager=cpu_manager_state,
            idle_slice_ms=idle_slice_ms,
            dry_run=dry_run,
            zones=zones,
            zone_socket=zone_socket.expanduser().absolute(),
            zone_state_dir=zone_state_dir.expanduser().absolute(),  # zones' processes have other folders of work
            most_zones=most_zones,
            bpf_root=bpf_root,
            log_level=log_level,
            log_format=log_format,
        )
    )
