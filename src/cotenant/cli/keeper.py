"""`cotenant keeper`: the process with the right to turn knobs, which puts each one back.

Only signatures and words stand here; what the command does is imported when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def keeper(
    *,
    root: Annotated[
        tuple[str, ...],
        Parameter(
            help="A group whose knobs, and those of all groups below it, may be turned; several times for several."
        ),
    ],
    state_dir: Annotated[Path, Parameter(help="Where leases outlive a crash, and the audit trail stands.")] = Path(
        "/var/lib/cotenant"
    ),
    socket: Annotated[Path, Parameter(help="Where agents speak to it.")] = Path("/run/cotenant/keeper.sock"),
    allow_user: Annotated[
        tuple[str, ...], Parameter(help="User whose processes may speak to it, by name or number; root always may.")
    ] = (),
    allow_gid: Annotated[tuple[int, ...], Parameter(help="Group, by number, whose processes may.")] = (),
    knob: Annotated[tuple[str, ...], Parameter(help="A knob that may be turned, e.g. cpu.max; default: all.")] = (),
    never: Annotated[
        tuple[str, ...], Parameter(help="A group that may not be touched, nor any above it; its own always is one.")
    ] = (),
    longest_ttl_s: Annotated[float, Parameter(help="Seconds that a lease may be asked for at most.")] = 600.0,
    cgroup_root: Annotated[
        Path | None, Parameter(help="Where the host's cgroups are mounted; default: as mountinfo has it.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Answer and record as if, but turn nothing.")] = False,
    log_level: Annotated[str, Parameter(help="debug, info, warning or error.")] = "info",
) -> int:
    """Turn knobs for an unprivileged agent, as leases: written down, read back, and put back.

    What an earlier keeper left is put back before the first request is taken. Exit status: 0 after SIGTERM or Ctrl-C with everything back, 1 where
    something could not be put back, 2 bad input.
    """
    from cotenant.services.keeper import main

    return main.run(
        main.Request(
            roots=root,
            state_dir=state_dir,
            socket=socket,
            allow_users=allow_user,
            allow_groups=allow_gid,
            knobs=knob,
            never=never,
            longest_ttl_s=longest_ttl_s,
            cgroup_root=cgroup_root,
            dry_run=dry_run,
            log_level=log_level,
        )
    )
