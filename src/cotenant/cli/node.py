"""`cotenant node`: what this machine's agent sees and does, what it holds, and experiments that prove it.

Only signatures and words stand here; what a command does is imported when it runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(
    name="node", help="This machine: what its agent sees, holds and did, and experiments.", help_format="plaintext"
)
experiment = App(
    name="experiment",
    help="Experiments on real cgroups of this machine. They need root, make their own groups and remove them.",
    help_format="plaintext",
)
app.command(experiment)

_JSON = Parameter(name="--json", negative=(), help="Print exactly one JSON object and nothing else.")
_ROUNDS = Parameter(help="Rounds; each runs every arm once, in random order.")
_OUT = Parameter(help="Folder for raw.jsonl, results.json and report.html; default runs/node-EXPERIMENT.")
_SEED = Parameter(help="Of the arms' order and of the arrivals.")

_DEFAULT_AGENT = "127.0.0.1:10262"  # the agent's own default
_AGENT = Parameter(help="Where the agent listens: HOST:PORT or unix:/PATH.")
_GROUPS = Parameter(help="How many groups to show, the busiest first.")
_STATE = Parameter(help="The keeper's state folder, for when no agent runs.")
_STATE_DIR = Path("/var/lib/cotenant")

Rounds = Annotated[int | None, _ROUNDS]
Out = Annotated[Path | None, _OUT]
Seed = Annotated[int, _SEED]
Json = Annotated[bool, _JSON]


@app.command
def status(
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    groups: Annotated[int, _GROUPS] = 12,
    json: Json = False,
) -> int:
    """The machine and its groups over one second, its agent, and what this machine can and cannot do."""
    from cotenant.cli import node_showing

    return node_showing.status(agent, groups, json)


@app.command
def watch(
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    groups: Annotated[int, _GROUPS] = 16,
    every: Annotated[float, Parameter(help="Seconds between two looks.")] = 2.0,
    count: Annotated[int | None, Parameter(help="End after so many; default: on Ctrl-C.")] = None,
    json: Annotated[bool, Parameter(negative=(), help="A JSON object a line.")] = False,
) -> int:
    """The machine and its groups, again and again."""
    from cotenant.cli import node_showing

    return node_showing.watch(agent, groups, every, count, json)


@app.command
def explain(
    group: Annotated[str, Parameter(help="A group's path, a pod's namespace/name, or its UID.")],
    /,
    *,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    json: Json = False,
) -> int:
    """Why a group or pod has what it has: what is held, by which rule, from which numbers, and what would lift it."""
    from cotenant.cli import node_showing

    return node_showing.explain(group, agent, state_dir, json)


@app.command
def knobs(
    *,
    restore: Annotated[
        bool, Parameter(negative=(), help="Put back what an agent that is no more left turned.")
    ] = False,
    agent: Annotated[str, _AGENT] = _DEFAULT_AGENT,
    state_dir: Annotated[Path, _STATE] = _STATE_DIR,
    json: Json = False,
) -> int:
    """What is turned now, what stood before, and by which rule. Exit status with --restore: 1 where something could not be put back or read."""
    from cotenant.cli import node_showing

    return node_showing.knobs(agent, state_dir, restore, json)


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
        bool, Parameter(negative=(), help="Run each block once, also where other work of the machine disturbed it.")
    ] = False,
) -> int:
    """A sine-wave service and batch work on one core: alone, together, together under the agent. About 75 s a round.

    Exit status of every experiment: 0 all checks pass, 1 one does not or something failed, 2 bad input, 130 interrupted.
    """
    from cotenant.cli import node_experiments

    period_s = node_experiments.QUICK_PERIOD_S if quick and period is None else period
    return node_experiments.run("sine", rounds, out, seed, json, period_s=period_s, once=once)


@experiment.command
def guard(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """Redis under an open-loop load beside stress-ng: does the agent keep its p99 and the batch work its progress?"""
    from cotenant.cli import node_experiments

    return node_experiments.run("guard", rounds, out, seed, json)


@experiment.command
def antagonist(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """One of four batch groups hurts a service on their core: is it the one that is named?"""
    from cotenant.cli import node_experiments

    return node_experiments.run("antagonist", rounds, out, seed, json)


@experiment.command
def burst(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """A bursty service under a CPU limit, with and without the agent's CPU burst."""
    from cotenant.cli import node_experiments

    return node_experiments.run("burst", rounds, out, seed, json)


@experiment.command
def overhead(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """What the agent costs with 50 and 200 groups: CPU, memory, calls, bytes, and the tail of a service beside it."""
    from cotenant.cli import node_experiments

    return node_experiments.run("overhead", rounds, out, seed, json)


@experiment.command
def step(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """From the first batch process to the first knob: by polling, and by the kernel's pressure trigger."""
    from cotenant.cli import node_experiments

    return node_experiments.run("step", rounds, out, seed, json)
