"""`cotenant node`: the state of this machine and its agent, held knobs, and experiments.

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
experiment = App(
    name="experiment",
    help="Experiments on real cgroups of this machine. They need root, make their own groups and remove them.",
    help_format="plaintext",
)
app.command(experiment)

_ROUNDS = Parameter(help="Rounds; each runs every arm once, in random order.")
_OUT = Parameter(help="Folder for raw.jsonl, results.json and report.html; default runs/node-EXPERIMENT.")
_SEED = Parameter(help="Seed of the arms' order and of the arrivals.")

_DEFAULT_AGENT = "127.0.0.1:10262"  # the agent's own default
_AGENT = Parameter(help="Where the agent listens: HOST:PORT or unix:/PATH.")
_GROUPS = Parameter(help="How many groups to show, the busiest first.")
_STATE = Parameter(help="The keeper's state folder, for when no agent runs.")
_STATE_DIR = Path("/var/lib/cotenant")

Rounds = Annotated[int | None, _ROUNDS]
Out = Annotated[Path | None, _OUT]
Seed = Annotated[int, _SEED]
_LIMIT = Parameter(
    help="Minutes after which no further round begins; default: three times as long as on a quiet machine."
)
Limit = Annotated[float | None, _LIMIT]


@app.command
def status(
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    groups: Annotated[int, _GROUPS] = 12,
    json: Json = False,
) -> int:
    """The machine and its groups over one second, its agent, and what this machine can and cannot do."""
    from cotenant.cli.node import views

    return views.status(agent, groups, json)


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
    from cotenant.cli.node import views

    return views.watch(agent, groups, every, count, json)


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
    from cotenant.cli.node import views

    return views.explain(group, agent, state_dir, json)


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
    """The held knobs, their original values and rules. Exit status with --restore: 1 where something could not be restored or read."""
    from cotenant.cli.node import views

    return views.knobs(agent, state_dir, restore, json)


@app.command
def doctor(
    *,
    config: Annotated[
        Path | None, Parameter(help="The agent's configuration; without one: the defaults, on all best-effort pods.")
    ] = None,
    single: Annotated[bool, Parameter(negative=(), help="For an agent that is its own keeper.")] = False,
    cpu_manager_state: Annotated[
        Path, Parameter(help="Checkpoint of the kubelet's CPU manager; its configuration is read beside it.")
    ] = Path("/var/lib/kubelet/cpu_manager_state"),
    json: Json = False,
) -> int:
    """What would be refused, fought over or missing if an agent acted on this node. Nothing is written.

    A conflict keeps an agent in mode act from acting; a warning is a policy that does less than it says; a note needs no action. Exit status: 0 without a conflict, 1 with one, 2 bad input.
    """
    from cotenant.cli.node import doctor as command

    return command.doctor(config, single, cpu_manager_state, json)


@experiment.command
def sine(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    json: Json = False,
    quick: Annotated[bool, Parameter(negative=(), help="A period of 10 s instead of 20 s.")] = False,
    period: Annotated[float | None, Parameter(help="Seconds of a period; default 20.")] = None,
    once: Annotated[
        bool, Parameter(negative=(), help="Run each block once, even if other work on the machine disturbed it.")
    ] = False,
    limit: Limit = None,
) -> int:
    """A sine-wave service and batch work on one core: alone, together, together under the agent. About 75 s a round.

    Exit status of every experiment: 0 all checks pass, 1 a check or the run failed, 2 bad input, 3 too disturbed to decide, 130 interrupted.
    """
    from cotenant.cli.node import experiments

    period_s = experiments.QUICK_PERIOD_S if quick and period is None else period
    return experiments.run("sine", rounds, out, seed, json, period_s=period_s, once=once, limit_min=limit)


@experiment.command
def guard(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """Redis under an open-loop load beside stress-ng: does the agent protect its p99 while the batch work progresses?"""
    from cotenant.cli.node import experiments

    return experiments.run("guard", rounds, out, seed, json)


@experiment.command
def antagonist(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """One of four batch groups delays a service on their core: does the search name the right one?"""
    from cotenant.cli.node import experiments

    return experiments.run("antagonist", rounds, out, seed, json)


@experiment.command
def culprit(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Annotated[bool, Parameter(negative=(), help="Each block once, whatever else runs on this machine.")] = False,
    json: Json = False,
) -> int:
    """A service in trouble for a neighbour, its own load or its own quota: is the right cause named, and no innocent group?"""
    from cotenant.cli.node import experiments

    return experiments.run("culprit", rounds, out, seed, json, once=once)


@experiment.command
def recovery(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Annotated[bool, Parameter(negative=(), help="Each block once, whatever else runs on this machine.")] = False,
    json: Json = False,
) -> int:
    """A hog arrives beside a service: does the agent name it, limit only it, and does the service recover within 20 s?"""
    from cotenant.cli.node import experiments

    return experiments.run("recovery", rounds, out, seed, json, once=once)


@experiment.command
def loop(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Annotated[bool, Parameter(negative=(), help="Each block once, whatever else runs on this machine.")] = False,
    limit: Limit = None,
    json: Json = False,
) -> int:
    """The ride service of the examples beside a batch hog: from its spans to the burning objective, the cause and the recovery."""
    from cotenant.cli.node import experiments

    return experiments.run("loop", rounds, out, seed, json, once=once, limit_min=limit)


@experiment.command
def burst(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """A bursty service under a CPU limit, with and without the agent's CPU burst."""
    from cotenant.cli.node import experiments

    return experiments.run("burst", rounds, out, seed, json)


@experiment.command
def overhead(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """The cost of the agent with 50 and 200 groups: CPU, memory, calls, bytes, and the tail latency of a service beside it."""
    from cotenant.cli.node import experiments

    return experiments.run("overhead", rounds, out, seed, json)


@experiment.command
def step(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """Delay from the first batch process to the first knob: by polling, and by the kernel's pressure trigger."""
    from cotenant.cli.node import experiments

    return experiments.run("step", rounds, out, seed, json)


@experiment.command
def zone(*, out: Out = None, json: Json = False) -> int:
    """Wake-up delay of a service beside batch under each kind of scheduling of a Control Zone, a broken zone beside another, and a load that changes. One run, about a minute.

    Needs Linux 6.12 with sched_ext, cgroup v2 and built objects (make bpf); sub-schedulers need Linux 7.3. All tasks of the machine run under our schedulers meanwhile.
    """
    from cotenant.cli.node import experiments

    return experiments.run_zone(out, json)
