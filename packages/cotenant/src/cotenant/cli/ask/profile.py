"""`cotenant profile`: what workloads use and what they suffer from; list and show ask the cluster, run measures on this
machine.

Only signatures and help texts are here; what a command does is imported when it runs, so that `--help` stays fast.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.model.urls import split_url
from cotenant.services.assess.assess_arguments import USE, ReadArguments
from cotenant.services.options import GIVEN, Context, Kubeconfig
from cotenant.services.profiling.profiling_arguments import SlowArguments

app = App(
    name="profile",
    help="Profiles of workloads: what each uses and what it suffers from, by resource.",
    help_format="plaintext",
)

Kubeconfig = Kubeconfig
Context = Context
Json = Annotated[bool, Parameter(name="--json", negative=(), help="Print exactly one JSON document and nothing else.")]


@app.command(name="list")
def list_(
    *,
    namespace: Annotated[str, Parameter(help="Default: all.")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    json: Json = False,
) -> int:
    """Every WorkloadProfile: overall sensitivity, pressure and tolerance, and how many axes are known."""
    from cotenant.cli.ask import profile_showing
    from cotenant.services.profiling.cluster import ProfileClient

    return profile_showing.profiles(ProfileClient(kubeconfig, context).all(namespace), json)


@app.command
def show(
    profile: Annotated[str, Parameter(help="NAMESPACE/NAME.")],
    other: Annotated[str, Parameter(help="NAMESPACE/NAME of a second one, to compare.")] = "",
    /,
    *,
    radar: Annotated[Path | None, Parameter(help="Also draw a radar chart: FILE.svg, FILE.html or FILE.png.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    json: Json = False,
) -> int:
    """One profile by axis, with reasons for what is not known; or two, and what each suffers from the other."""
    from cotenant.cli.ask import profile_showing
    from cotenant.services.profiling.cluster import ProfileClient

    client = ProfileClient(kubeconfig, context)
    return profile_showing.show([client.one(key) for key in (profile, other) if key], radar, json)


@app.command
def run(
    profile: Annotated[str, Parameter(help="NAMESPACE/NAME of the workload's profile.")],
    /,
    *,
    group: Annotated[
        str, Parameter(help="Cgroup of the replica on this machine. Default: asked of the node's agent.")
    ] = "",
    agent: Annotated[
        str, Parameter(help="Where the agent listens: HOST:PORT or unix:/PATH. Asked where there is no --group.")
    ] = "127.0.0.1:10262",
    objective: Annotated[
        str, Parameter(help="NAMESPACE/NAME of a ServiceObjective: its p99 is the signal, its threshold the limit.")
    ] = "",
    traces: Annotated[
        str,
        Parameter(
            help="Where `cotenant traces` listens. Default: as `cotenant up` wrote it, else http://127.0.0.1:4318."
        ),
    ] = "",
    latency_file: Annotated[
        Path | None, Parameter(help='Lines of JSON with "p99_us", as the service appends them: the signal.')
    ] = None,
    objective_ms: Annotated[float | None, Parameter(help="With --latency-file: the limit of p99.")] = None,
    axes: Annotated[
        str,
        Parameter(help="Comma-separated: cpu, cache, memoryBandwidth, memory, disk, network, runQueue. Default: all."),
    ] = "",
    levels: Annotated[int, Parameter(help="Rungs up to the full load of each axis.")] = 4,
    windows: Annotated[int, Parameter(help="Windows of the signal a rung; as many before it without load.")] = 4,
    memory_mib: Annotated[int, Parameter(help="Most memory that the memory axis holds at its full level.")] = 256,
    abort_factor: Annotated[
        float, Parameter(help="Stop at once when the p99 is over this many times its limit.")
    ] = 2.0,
    abort_ratio: Annotated[
        float, Parameter(help="Without a limit: stop when the signal is over this many times that without load.")
    ] = 10.0,
    store: Annotated[
        bool, Parameter(negative=(), help="Write the result to the cluster's WorkloadProfile (status.measured).")
    ] = False,
    radar: Annotated[Path | None, Parameter(help="Also draw a radar chart: FILE.svg, FILE.html or FILE.png.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = "",
    json: Json = False,
) -> int:
    """Measure the sensitivity of one replica on this machine: rising loads on one resource after the other beside it.

    Needs root and cgroups. The replica suffers meanwhile, within the limit of --abort-factor or --abort-ratio. All
    loads are removed at the end, also after kill -9. Exit status: 0 measured, 1 aborted, 2 not possible here.
    """
    from cotenant.cli.ask import profile_running

    request = profile_running.RunRequest(
        profile=profile,
        group=group,
        agent=agent,
        objective=objective,
        traces=traces,
        latency_file=latency_file,
        objective_ms=objective_ms,
        axes=axes,
        levels=levels,
        windows=windows,
        memory_mib=memory_mib,
        abort_factor=abort_factor,
        abort_ratio=abort_ratio,
        store=store,
        radar=radar,
        kubeconfig=kubeconfig,
        context=context,
    )
    return profile_running.run(request, json)


@app.command
def recommend(
    workload: Annotated[str, Parameter(help="NAMESPACE/NAME, or NAMESPACE/KIND/NAME. Without: --all.")] = "",
    /,
    *,
    every: Annotated[bool, Parameter(name="--all", negative=(), help="Every workload with running pods.")] = False,
    request: Annotated[ReadArguments, GIVEN] = ReadArguments(),
    file: Annotated[
        Path | None, Parameter(help="A copy by `cotenant assess dump`, instead of a cluster.", group=USE)
    ] = None,
    min_hours: Annotated[float, Parameter(help="Hours of history that a size needs.", group=USE)] = 24.0,
    risk_percent: Annotated[float, Parameter(help="Share of time in which a replica may need more.")] = 1.0,
    prices: Annotated[Path | None, Parameter(help="A file of prices (ours, or OpenCost's CSV).")] = None,
    form: Annotated[
        str,
        Parameter(help="patch: commands of kubectl; yaml: merges of templates, to commit; vpa: VPA objects."),
    ] = "",
    json: Json = False,
) -> int:
    """Requests and limits for each container, with the hours and days that set them and what they would have cost.

    Use over time is from a Prometheus, a watch of metrics.k8s.io, or a copy. Reads with get and list only and changes
    nothing. Exit status: 0 all recommended, 1 no answer, 2 bad input, 3 printed, but something is not known.
    """
    from math import isfinite

    from cotenant.cli.access import check_access
    from cotenant.model.errors import InvalidInput
    from cotenant.services.assess.assess_arguments import check, check_risk

    check(request)
    check_risk(risk_percent)
    if bool(workload) == every:
        raise InvalidInput("NAMESPACE/NAME", workload or "none", "one workload, or --all")
    if workload and not 2 <= len([part for part in workload.split("/") if part]) == workload.count("/") + 1 <= 3:
        raise InvalidInput("NAMESPACE/NAME", workload, "NAMESPACE/NAME or NAMESPACE/KIND/NAME")
    if not (isfinite(min_hours) and min_hours >= 0):
        raise InvalidInput("--min-hours", min_hours, "0 or more")
    if form not in ("", "patch", "vpa", "yaml") or (form and json):
        raise InvalidInput("--form", form, "patch, vpa or yaml, without --json")
    if file is None:
        if not (request.prometheus or request.watch):
            raise InvalidInput("use over time", "none", "--prometheus URL, --watch 10m, or --file DUMP.zip")
        check_access(request.kubeconfig, request.context)
    elif request.prometheus or request.watch:
        raise InvalidInput("--file", str(file), "no --prometheus or --watch beside it: one source of use")
    from cotenant.cli.ask import recommend_showing
    from cotenant.services.sizes.recommending import SizeQuery

    wanted = SizeQuery(workload, risk_percent / 100, min_hours * 3600)
    return recommend_showing.recommend(request, wanted, file, prices, form, json)


@app.command
def code(
    target: Annotated[
        str, Parameter(help="Process id, guid of a container or program, or name of a pod: on this host.")
    ],
    /,
    *,
    seconds: Annotated[int, Parameter(help="How long.")] = 10,
    rate: Annotated[int, Parameter(help="Samples a second.")] = 100,
    out: Annotated[
        Path | None, Parameter(help="Also write the stacks: FILE.otlp as OTLP profiles, else as pprof (gzipped).")
    ] = None,
    otlp: Annotated[
        str, Parameter(help="Also send them to this collector (OTLP/HTTP profiles), as http://HOST:4318.")
    ] = "",
    idle: Annotated[bool, Parameter(negative=(), help="Count threads that wait, too.")] = False,
    sent: Annotated[
        bool, Parameter(negative=(), help="The last cProfile that the program sent, instead of sampling.")
    ] = False,
    slow: Annotated[SlowArguments, GIVEN] = SlowArguments(),
    rows: Annotated[int, Parameter(help="Lines of the table.")] = 20,
    json: Json = False,
) -> int:
    """In which lines a running program spends its time, without a change of it.

    Samples Python by py-spy, other programs by perf while they run on a CPU; both need root for another user's process.
    A guid or pod is found by its containers' environment on this host. With --slow Python's stacks are joined with the
    spans of the requests that `cotenant traces` kept meanwhile: which frames hold the slow ones' time.
    """
    from cotenant.services.profiling.code import check_sampling

    check_sampling(seconds, rate)  # before what joins stacks and spans is loaded
    from cotenant.cli.ask.profile_code_running import code as run_code
    from cotenant.services.profiling.output import Output

    return run_code(target, seconds, rate, Output(out, otlp), idle, sent, slow, rows, json)


@app.command
def perf(
    *command: Annotated[str, Parameter(help="The command and its arguments, after --.", allow_leading_hyphen=True)],
    label: Annotated[tuple[str, ...], Parameter(help="NAME=VALUE; may be given several times.")] = (),
    otlp: Annotated[
        str, Parameter(help="Also send the figures to this collector (OTLP/HTTP), as http://HOST:4318.")
    ] = "",
    json: Json = False,
) -> int:
    """Run a command and show what it used: CPU, context switches, I/O, pressure, performance counters.

    Under an MPI launcher each rank is measured by itself (mpirun -n 4 cotenant profile perf -- ./app). The figures are
    on standard error; with --json on standard output, where the command's output goes to standard error. The exit
    status is the command's.
    """
    import os
    import sys

    from cotenant.cli.ask.profile_perf_showing import show_command
    from cotenant.model.errors import CotenantError, InvalidInput
    from cotenant.services.profiling.command import labels_of, measured, send

    if not command:
        raise InvalidInput("COMMAND", "", "a command after --")
    if otlp and split_url(otlp) is None:
        raise InvalidInput("--otlp", otlp, "http://HOST:PORT or https://HOST:PORT")
    found = measured(command, os.environ, labels_of(label), sys.stderr.fileno() if json else None)
    show_command(found, json)
    if otlp:
        try:
            send(found, otlp)
        except CotenantError as error:  # the command ran, and its status is what counts
            print(f"cotenant: the figures were not sent: {error}", file=sys.stderr)
    return found.status
