"""`cotenant zone`: create Control Zones, run one for as long as a command runs, and show, change and end those of this
host.

Only signatures, help texts and the printing of answers are here; what a command does is imported when it runs, so that
`--help` stays fast.
"""

from __future__ import annotations

import json as _json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(
    name="zone",
    help="Control Zones: groups of applications with a kernel scheduler of their own, changed by what is measured.",
    help_format="plaintext",
)

_STATE = Parameter(
    name=("--zone-state-dir", "--state-dir"), help="Folder with the state of each zone, as of `cotenant keeper`."
)
_STATE_DIR = Path("/run/cotenant/zones")
_SOCKET = Parameter(name=("--zone-socket", "--socket"), help="The keeper's socket for zones, as of `cotenant keeper`.")
_SOCKET_PATH = Path("/run/cotenant/zones.sock")
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON and nothing else.")]
Name = Annotated[str, Parameter(help="The zone's name.")]


@app.command
def run(
    file: Annotated[Path, Parameter(help="The zone's definition (YAML).")],
    /,
    *,
    agent: Annotated[
        str | None,
        Parameter(
            help="The node's agent, HOST:PORT or unix:/PATH: burn rates of objectives count beside late dispatches.",
            show_default=False,
        ),
    ] = None,
    socket: Annotated[Path, _SOCKET] = _SOCKET_PATH,
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    seconds: Annotated[
        float | None, Parameter(help="End after this time; default: on SIGTERM or Ctrl-C.", show_default=False)
    ] = None,
    json: Annotated[bool, Parameter(negative=(), help="Print each change as one JSON object a line.")] = False,
) -> int:
    """Create a zone in the keeper (`cotenant keeper --zones`), print each change with its reason and what it
    brought, and destroy the zone at the end.
    """
    from cotenant.services.zones import main

    return main.run(file, socket, state_dir, seconds, json, agent)


@app.command
def create(
    file: Annotated[Path, Parameter(help="The zone's definition (YAML): a plain file, a ControlZone, or a package.")],
    /,
    *,
    packages_dir: Annotated[
        Path, Parameter(help="Where packages are unpacked, each into a folder of its zone's name and its sum.")
    ] = Path("/var/lib/cotenant/zones"),
    agent: Annotated[
        str | None,
        Parameter(
            help="The node's agent, 127.0.0.1:PORT or unix:/PATH, for pods selected by labels and burn rates; default "
            "with applications: 127.0.0.1:10262.",
            show_default=False,
        ),
    ] = None,
    socket: Annotated[Path, _SOCKET] = _SOCKET_PATH,
    json: Json = False,
) -> int:
    """Create a zone in the keeper (`cotenant keeper --zones`), which runs it until it is destroyed, also over a restart
    of the keeper.

    Exit status: 0 created, 1 refused by the host or no keeper, 2 a wrong file.
    """
    from cotenant.cli.zone.showing import summary
    from cotenant.services.zones.client import ZoneClient
    from cotenant.services.zones.package import definition_file
    from cotenant.services.zones.zone_files import definition_of, read_text

    file = definition_file(file, packages_dir)
    text = read_text(file)
    definition_of(text, str(file))
    state = ZoneClient(socket).create(text.decode(), str(file.absolute()), agent)
    print(_json.dumps(state) if json else summary({**state, "running": True}))
    if not json and state["state"] == "failed" and state["history"]:
        print(f"  {state['history'][-1]['reason']}; tried again later")
    return 0


@app.command(name="list")
def list_zones(*, state_dir: Annotated[Path, _STATE] = _STATE_DIR, json: Json = False) -> int:
    """The zones of this host, also those that ended."""
    from cotenant.cli.zone.showing import summary
    from cotenant.services.zones.state_file import read_states

    states = read_states(state_dir)
    if json:
        print(_json.dumps(states))
        return 0
    if not states:
        print("no zones")
    for state in states:
        print(summary(state))
    return 0


@app.command
def inspect(name: Name, /, *, state_dir: Annotated[Path, _STATE] = _STATE_DIR, json: Json = False) -> int:
    """A zone's setting, rows and last reading."""
    from cotenant.cli.zone.showing import inspected
    from cotenant.services.zones.state_file import read_state

    state = read_state(state_dir, name)
    print(_json.dumps(state) if json else "\n".join(inspected(state)))
    return 0


@app.command
def switch(
    name: Name,
    setting: Annotated[
        str,
        Parameter(
            help="latency, throughput, weighted, exclusive, siblings or apart; or weights, root/MODE or sub/MODE."
        ),
    ],
    /,
    *,
    socket: Annotated[Path, _SOCKET] = _SOCKET_PATH,
    json: Json = False,
) -> int:
    """Run another scheduler in an active zone: without waiting for its dwell time, and as a canary like any other
    change.
    """
    from cotenant.cli.zone.showing import summary
    from cotenant.services.zones.client import ZoneClient

    state = ZoneClient(socket).switch(name, setting)
    print(_json.dumps(state) if json else summary({**state, "running": True}))
    return 0


@app.command
def why(name: Name, /, *, state_dir: Annotated[Path, _STATE] = _STATE_DIR, json: Json = False) -> int:
    """The changes of a zone, oldest first: event, rule, rows or setting changed, and what it brought."""
    from cotenant.cli.zone.showing import story
    from cotenant.services.zones.state_file import read_state

    history = read_state(state_dir, name)["history"]
    if json:
        print(_json.dumps(history))
        return 0
    for change in history:
        print("\n".join(story(change)))
    return 0


@app.command
def kernel(
    *,
    package: Annotated[
        str, Parameter(help="The kernel's meta-package, as in a zone's vm.kernel.package: cloud, plain or rt.")
    ] = "linux-image-cloud-amd64",
    hz: Annotated[
        tuple[int, ...],
        Parameter(
            negative=(),
            help="Ticks a second, as in a zone's vm.kernel.hz: build one with so many; may be repeated. Default: fetch "
            "the package.",
        ),
    ] = (),
    linux: Annotated[
        str,
        Parameter(
            help="Of this version of Linux (6.18, 7.2.13) and not the newest: fetched from Debian's archive, or with "
            "--hz built from its source.",
            show_default=False,
        ),
    ] = "",
    jobs: Annotated[int, Parameter(help="Compilers at once, with --hz; 0: one a CPU.")] = 0,
    json: Json = False,
) -> int:
    """Fetch a kernel of zones in virtual machines: the newest of Debian's trixie-backports, through apt (amd64; 60 MB
    and the modules that a guest loads are kept under COTENANT_CACHE or ~/.cache/cotenant). With --hz build one from the
    source package there (once; 6 GiB of disk, a compiler); those that are asked for together are of one source, and an
    interrupted build goes on where it ended.
    """
    from cotenant.drivers.qemu.kernel import zone_kernel
    from cotenant.drivers.qemu.kernel_archive import archive_kernels
    from cotenant.drivers.qemu.kernel_build import default_jobs, zone_kernels_with

    say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    if hz:
        kernels = zone_kernels_with(hz, jobs or default_jobs(), say, linux)
    else:
        kernels = tuple(archive_kernels([linux]).values()) if linux else (zone_kernel(package),)
    for found in kernels:
        print(
            _json.dumps({"version": found.version, "image": str(found.image)})
            if json
            else f"{found.version}: {found.image}"
        )
    return 0


@app.command
def pack(
    file: Annotated[Path, Parameter(help="The zone's definition (YAML).")],
    package: Annotated[
        Path | None, Parameter(help="The package's file; default: the zone's name with .zone.tar.", show_default=False)
    ] = None,
    /,
    *,
    sign: Annotated[
        Path | None,
        Parameter(
            help="Sign the package with this private key: Ed25519, PEM, as openssl genpkey writes it.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Write a zone as one file: its definition, the images of its pods, a kernel's file, and the SHA-256 sum of each.
    `cotenant zone create` starts it.
    """
    from cotenant.drivers.signatures.ed25519 import Signer
    from cotenant.services.zones.package import SUFFIX, pack
    from cotenant.services.zones.zone_files import read_definition

    target = package or Path(f"{read_definition(file).zone}{SUFFIX}")
    signer = None if sign is None else Signer.of_file(sign, "--sign")
    _show_package(target, pack(file, target, signer).files, json)
    return 0


@app.command
def verify(
    package: Annotated[Path, Parameter(help="A package of `cotenant zone pack`.")],
    /,
    *,
    signers: Annotated[Path, Parameter(help="Folder of the public keys that count (*.pem), as the keeper's.")],
    json: Json = False,
) -> int:
    """Check who signed a package, and every file in it against its sum.

    Exit status: 0 signed by one of the keys and whole, 2 not.
    """
    from cotenant.drivers.signatures.ed25519 import TrustedKeys
    from cotenant.services.zones.package import verified

    packed, signer = verified(package, TrustedKeys.of_folder(signers, "--signers"))
    _show_package(package, packed.files, json, signer)
    return 0


@app.command
def unpack(
    package: Annotated[Path, Parameter(help="A package of `cotenant zone pack`.")],
    folder: Annotated[Path, Parameter(help="The folder to make.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Check a package and put its files into a new folder."""
    from cotenant.services.zones.package import read_manifest, unpack

    unpack(package, folder)
    _show_package(folder, read_manifest(package).files, json)
    return 0


def _show_package(place: Path, files: dict[str, tuple[str, int]], as_json: bool, signer: str = "") -> None:
    if as_json:
        of_signer = {"signer": signer} if signer else {}
        sums = {name: found[0] for name, found in files.items()}
        print(_json.dumps({"path": str(place), **of_signer, "files": sums}))
        return
    print(f"{place}: signed by {signer}" if signer else place)
    for name, (digest, size) in files.items():
        print(f"  {digest[:12]} {size / 1e6:9.1f} MB  {name}")


def explain_zone(name: str, state_dir: Path, as_json: bool) -> int:
    """`cotenant explain zone`: what `inspect` and `why` print."""
    from cotenant.cli.zone.showing import inspected, story
    from cotenant.services.zones.state_file import read_state

    state = read_state(state_dir, name)
    lines = [*inspected(state), *(line for change in state["history"] for line in story(change))]
    print(_json.dumps(state) if as_json else "\n".join(lines))
    return 0


@app.command
def logs(
    name: Name,
    /,
    *,
    lines: Annotated[int, Parameter(help="The last lines.")] = 200,
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    json: Json = False,
) -> int:
    """What happened to a zone, oldest first: starts, changes, groups that came and went, failures; also of a zone
    that ended.
    """
    from cotenant.cli.zone.showing import logged
    from cotenant.services.zones.log_file import read_log

    entries = read_log(state_dir, name, lines)
    if json:
        print(_json.dumps(entries))
        return 0
    for entry in entries:
        print(logged(entry))
    return 0


@app.command(name="exec")
def execute(
    name: Name,
    *command: Annotated[
        str, Parameter(help="The command and its arguments, after --.", allow_leading_hyphen=True, show_default=False)
    ],
    group: Annotated[
        str, Parameter(help="The zone's group, or one below it; default: its only one.", show_default=False)
    ] = "",
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    socket: Annotated[Path, _SOCKET] = _SOCKET_PATH,
    json: Json = False,
) -> int:
    """Run a command in a group of the zone, with this user's privileges, which must suffice to write the group's
    cgroup.procs.

    In a zone in a virtual machine the keeper runs it in the guest, for root, and its output is printed at its end. Exit
    status: the command's. With --json the output is kept and printed as one object with the exit status.
    """
    from cotenant.services.zones.client import ZoneClient
    from cotenant.services.zones.executing import execute_in
    from cotenant.services.zones.state_file import read_state

    in_guest = "vm" in read_state(state_dir, name)
    if in_guest:
        found = ZoneClient(socket).execute(name, group, list(command))
    else:
        found = execute_in(state_dir, name, group, command, captured=json)
    if json:
        print(_json.dumps(found))
    elif in_guest:
        print(found["stdout"], end="")
        print(found["stderr"], end="", file=sys.stderr)
    return int(found["exit"])


@app.command
def destroy(name: Name, /, *, socket: Annotated[Path, _SOCKET] = _SOCKET_PATH, json: Json = False) -> int:
    """End a zone: its groups have the weights and the scheduler of before. A zone that ended already is forgotten,
    with its log.
    """
    from cotenant.services.zones.client import ZoneClient

    done = ZoneClient(socket).destroy(name)
    print(_json.dumps({"zone": name, "done": done}) if json else f"{name}: {done}")
    return 0
