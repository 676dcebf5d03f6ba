"""`cotenant node experiment`: experiments on this machine.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json

app = App(
    name="experiment",
    help="Experiments on real cgroups of this machine. They need root, make their own groups and remove them.",
    help_format="plaintext",
)

_ROUNDS = Parameter(help="Rounds; each runs every arm once, in random order.")
_OUT = Parameter(help="Folder for raw.jsonl, results.json and report.html; default runs/node-EXPERIMENT.")
_SEED = Parameter(help="Seed of the arms' order and of the arrivals.")

Rounds = Annotated[int | None, _ROUNDS]
Out = Annotated[Path | None, _OUT]
Seed = Annotated[int, _SEED]
_LIMIT = Parameter(
    help="Minutes after which no further round begins; default: three times as long as on a quiet machine."
)
Limit = Annotated[float | None, _LIMIT]
Once = Annotated[bool, Parameter(negative=(), help="Each block once, whatever else runs on this machine.")]


@app.command
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

    Exit status of every experiment: 0 all checks pass, 1 a check or the run failed, 2 bad input, 3 too disturbed to
    decide, 130 interrupted.
    """
    from cotenant_lab.cli import node_experiments

    period_s = node_experiments.QUICK_PERIOD_S if quick and period is None else period
    return node_experiments.run("sine", rounds, out, seed, json, period_s=period_s, once=once, limit_min=limit)


@app.command
def guard(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """Redis under an open-loop load beside stress-ng: does the agent protect its p99 while the batch work
    progresses?
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("guard", rounds, out, seed, json)


@app.command
def antagonist(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """One of four batch groups delays a service on their core: does the search name the right one?"""
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("antagonist", rounds, out, seed, json)


@app.command
def culprit(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Once = False,
    json: Json = False,
) -> int:
    """A service in trouble for a neighbour, its own load or its own quota: is the right cause named, and no
    innocent group?
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("culprit", rounds, out, seed, json, once=once)


@app.command
def recovery(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Once = False,
    json: Json = False,
) -> int:
    """A hog arrives beside a service: does the agent name it, limit only it, and does the service recover within 20
    s?
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("recovery", rounds, out, seed, json, once=once)


@app.command
def llm(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Once = False,
    limit: Limit = None,
    json: Json = False,
) -> int:
    """The stand-in for a model server beside a batch hog: from its /metrics to the burning objective, the cause and
    the recovery. No GPU is used.
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("llm", rounds, out, seed, json, once=once, limit_min=limit)


@app.command
def loop(
    *,
    rounds: Rounds = None,
    out: Out = None,
    seed: Seed = 1,
    once: Once = False,
    limit: Limit = None,
    json: Json = False,
) -> int:
    """The ride service of the examples beside a batch hog: from its spans to the burning objective, the cause and
    the recovery.
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("loop", rounds, out, seed, json, once=once, limit_min=limit)


@app.command
def burst(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """A bursty service under a CPU limit, with and without the agent's CPU burst."""
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("burst", rounds, out, seed, json)


@app.command
def overhead(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """The cost of the agent with 50 and 200 groups: CPU, memory, calls, bytes, and the tail latency of a service
    beside it.
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("overhead", rounds, out, seed, json)


@app.command
def step(*, rounds: Rounds = None, out: Out = None, seed: Seed = 1, json: Json = False) -> int:
    """Delay from the first batch process to the first knob: by polling, and by the kernel's pressure trigger."""
    from cotenant_lab.cli import node_experiments

    return node_experiments.run("step", rounds, out, seed, json)


@app.command
def zone(*, out: Out = None, json: Json = False) -> int:
    """Wake-up delay of a service beside batch under each kind of scheduling of a Control Zone, a broken zone beside
    another, and a load that changes. One run, about a minute.

    Needs Linux 6.12 with sched_ext, cgroup v2 and built objects (make bpf); sub-schedulers need Linux 7.3. All tasks of
    the machine run under our schedulers meanwhile.
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run_zone(out, json)


@app.command
def schedulers(
    *,
    linux: Annotated[
        tuple[str, ...],
        Parameter(
            negative=(),
            help="Instead: which objects and schedulers load and behave on this version of Linux (6.18, 7.2.13; all); "
            "may be repeated. Fetches the kernel from Debian's archive, once.",
        ),
    ] = (),
    out: Out = None,
    json: Json = False,
) -> int:
    """Who shares a core under each scheduler, on two cores of two threads, and rows of threads by name: in guests whose
    clock counts instructions. Some five minutes of CPU time; with --linux as much for each kernel.

    Needs root, what zones in virtual machines need (`cotenant zone kernel`), and built objects (make bpf).
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run_schedulers(linux, out, json)


@app.command
def kernels(
    *,
    kernel: Annotated[
        tuple[Path, ...],
        Parameter(
            negative=(),
            help="An image to compare, as in vm.kernel.file of a zone; may be repeated. Default: the fetched kernel.",
        ),
    ] = (),
    hz: Annotated[
        tuple[int, ...],
        Parameter(
            negative=(), help="One that `cotenant zone kernel --hz` built, by its ticks a second; may be repeated."
        ),
    ] = (),
    rounds: Annotated[int, Parameter(help="Guests of each model.")] = 3,
    out: Out = None,
    json: Json = False,
) -> int:
    """Redis beside batch under each preemption model and scheduler, at low and at high load, in guests whose clock
    counts instructions. About a minute of CPU time for each guest.

    Images differ in what they were built with, as in ticks a second; each is booted with every model that it knows.
    Needs root, what zones in virtual machines need (`cotenant zone kernel`), redis-server, and built objects (make
    bpf).
    """
    from cotenant_lab.cli import node_experiments

    return node_experiments.run_kernels(kernel, hz, rounds, out, json)
