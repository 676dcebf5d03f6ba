"""`cotenant node`: the state of this machine and its agent, and held knobs.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json

app = App(
    name="node", help="This machine: what its agent sees, holds and did, and experiments.", help_format="plaintext"
)
_DEFAULT_AGENT = "127.0.0.1:10262"  # the agent's own default
_AGENT = Parameter(help="Where the agent listens: HOST:PORT or unix:/PATH.")
_GROUPS = Parameter(help="How many groups to show, the busiest first.")
_STATE = Parameter(help="The keeper's state folder, for when no agent runs.")
_STATE_DIR = Path("/var/lib/cotenant")


@app.command
def status(
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    groups: Annotated[int, _GROUPS] = 12,
    config: Annotated[
        Path | None,
        Parameter(help="The agent's configuration, which names the runtime hook's state file, for when no agent runs."),
    ] = None,
    json: Json = False,
) -> int:
    """The machine and its groups over one second, its agent, and what this machine can and cannot do."""
    from cotenant.cli.node import status_commands

    return status_commands.status(agent, groups, config, json)


@app.command
def gpus(
    *,
    dcgm: Annotated[Path | None, Parameter(help="Page of NVIDIA's DCGM exporter, in a file.")] = None,
    nvidia_smi: Annotated[Path | None, Parameter(help="Output of `nvidia-smi -q -x`.")] = None,
    nvidia_smi_list: Annotated[
        Path | None, Parameter(help="Output of `nvidia-smi -L`: by it MIG instances are those that were given.")
    ] = None,
    amd_smi: Annotated[
        tuple[Path, ...],
        Parameter(help="Output of `amd-smi metric --json`; repeated for those of its `list`, `static`, `process`."),
    ] = (),
    rocm_smi: Annotated[Path | None, Parameter(help="Output of `rocm-smi -a --json`.")] = None,
    pod_resources: Annotated[
        Path | None, Parameter(help="Kubelet's PodResourcesLister/List, as JSON: who holds which device.")
    ] = None,
    of_this_machine: Annotated[
        bool,
        Parameter(negative=(), help="The recordings are of this machine and now: name pods by their processes too."),
    ] = False,
    pmon: Annotated[
        Path | None, Parameter(help="Output of `nvidia-smi pmon -c 1 -s u`: the use of each process.")
    ] = None,
    append: Annotated[
        Path | None,
        Parameter(help="Add one reading of a service and its neighbours to this file, for `gpu-culprit`, `gpu-need`."),
    ] = None,
    service: Annotated[str, Parameter(help="With --append: the pod, NAMESPACE/NAME.")] = "",
    level: Annotated[float | None, Parameter(help="With --append: its latency now over its objective.")] = None,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    json: Json = False,
) -> int:
    """Who holds each GPU, how much of it is used, and how many are held and idle: from recordings."""
    from cotenant.cli.node import gpus as command

    reading = None if append is None else command.CardReading(append, service, level)
    files = command.Recordings(dcgm, nvidia_smi, nvidia_smi_list, amd_smi, rocm_smi, pod_resources, pmon)
    return command.gpus(files, of_this_machine, json, agent=agent, reading=reading)


@app.command(name="gpu-culprit")
def gpu_culprit(
    file: Annotated[Path, Parameter(help="Readings, as `node gpus --append` writes them.")],
    /,
    *,
    service: Annotated[str, Parameter(help="The pod that is slow, NAMESPACE/NAME.")],
    json: Json = False,
) -> int:
    """Who disturbs a service on its GPU, and on which path; status 3 where that cannot be said."""
    from cotenant.cli.node import gpu_culprit as command

    return command.culprit(file, service, json)


@app.command(name="gpu-need")
def gpu_need(
    file: Annotated[Path, Parameter(help="Readings, as `node gpus --append` writes them.")],
    /,
    *,
    pod: Annotated[str, Parameter(help="The pod, NAMESPACE/NAME.")],
    cards: Annotated[int, Parameter(help="How many cards it has.")] = 1,
    json: Json = False,
) -> int:
    """What a pod takes of its GPU, as the annotation by which `scheduler --gpu-neighbours` places it."""
    from cotenant.cli.node import gpu_need as command

    return command.need(file, pod, cards, json)


@app.command
def vms(
    *,
    seconds: Annotated[float, Parameter(help="How long to look, 0.1 to 3600.")] = 5.0,
    json: Json = False,
) -> int:
    """What each virtual machine of QEMU costs this host: vCPUs, time that they waited, devices, exits and kicks."""
    from cotenant.cli.node import vms as command

    return command.vms(seconds, json)


@app.command
def watch(
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    groups: Annotated[int, _GROUPS] = 16,
    every: Annotated[float, Parameter(help="Seconds between two samples.")] = 2.0,
    count: Annotated[int | None, Parameter(help="End after this many samples; default: on Ctrl-C.")] = None,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object a line (NDJSON), and nothing else.")
    ] = False,
) -> int:
    """The machine and its groups, repeatedly."""
    from cotenant.cli.node import status_commands

    return status_commands.watch(agent, groups, every, count, json)


@app.command
def stalls(
    *,
    group: Annotated[str, Parameter(help="Only this group and those below it; default: all.", show_default=False)] = "",
    every: Annotated[float, Parameter(help="Seconds between two readings.")] = 5.0,
    count: Annotated[int | None, Parameter(help="End after this many readings; default: on Ctrl-C.")] = None,
    long_ms: Annotated[float, Parameter(help="A longer wait is kept, with its stack and who ended it.")] = 100.0,
    groups: Annotated[int, _GROUPS] = 16,
    json: Annotated[
        bool, Parameter(negative=(), help="Print one JSON object a line (NDJSON), and nothing else.")
    ] = False,
) -> int:
    """What groups wait for besides a CPU: load averages of running and of blocked tasks, waits for block I/O and direct
    reclaim, node conditions, and the last long waits. Needs root and the eBPF objects.
    """
    from cotenant.cli.node import stalls as command

    return command.stalls(group, every, count, long_ms, groups, json)


@app.command
def explain(
    group: Annotated[str, Parameter(help="A group's path, a pod's namespace/name, or its UID.")],
    /,
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    json: Json = False,
) -> int:
    """Why a group or pod is limited: the held knobs, the rules, their numbers, and when each is released."""
    from cotenant.cli.node import status_commands

    return status_commands.explain(group, agent, state_dir, json)


@app.command
def knobs(
    *,
    restore: Annotated[
        bool, Parameter(negative=(), help="Restore the knobs left by an agent that no longer runs.")
    ] = False,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    json: Json = False,
) -> int:
    """The held knobs, their original values and rules. Exit status with --restore: 1 where something could not be
    restored or read.
    """
    from cotenant.cli.node import status_commands

    return status_commands.knobs(agent, state_dir, restore, json)


@app.command
def hold(
    knob: Annotated[str, Parameter(help="The knob, such as cgroup.freeze, gpu.power or mps.threads.")],
    group: Annotated[
        str, Parameter(help="A group's path, a GPU's UUID, or an MPS server: default, or its process id.")
    ],
    value: Annotated[str, Parameter(help="The value.", show_default=False)] = "",
    /,
    *,
    give_back: Annotated[
        bool, Parameter(negative=(), help="End the lease instead: the original value returns.")
    ] = False,
    seconds: Annotated[float, Parameter(name="--for", help="Seconds after which the original value returns.")] = 60.0,
    keeper: Annotated[Path, Parameter(help="Socket of the keeper.")] = Path("/run/cotenant/keeper.sock"),
    json: Json = False,
) -> int:
    """Set one knob by hand for a time: a lease of the keeper, which puts the original value back, also after kill -9.
    Exit status 1 where the keeper refuses.
    """
    from cotenant.cli.node import holding

    return holding.hold(knob, group, None if give_back else value, seconds, keeper, json)


@app.command
def doctor(
    *,
    config: Annotated[
        Path | None, Parameter(help="The agent's configuration; without one: the defaults, on all best-effort pods.")
    ] = None,
    single: Annotated[bool, Parameter(negative=(), help="For an agent that is its own keeper.")] = False,
    cpu_manager_state: Annotated[
        Path | None,
        Parameter(
            help="Checkpoint of the kubelet's CPU manager; its configuration is read beside it. Default: the agent's."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """What would be refused, fought over or missing if an agent acted on this node. Nothing is written.

    A conflict keeps an agent in mode act from acting; a warning is a policy that does less than it says; a note needs
    no action. Exit status: 0 without a conflict, 1 with one, 2 bad input.
    """
    from cotenant.cli.node import doctor as command

    return command.doctor(config, single, cpu_manager_state, json)
