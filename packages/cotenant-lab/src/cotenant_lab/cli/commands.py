"""`cotenant lab`: compare policies on a workload, list what is available, import traces, explain a decision.

Only signatures and help texts are here; implementations are imported when a command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from cotenant.cli.options import Json

app = App(name="lab", help="The simulated world: compare placement policies on workloads.", help_format="plaintext")


FORMATS = (  # names of the catalogue, which would load polars for a help page
    "alibaba2018",
    "alibaba2018-distributions",
    "alibaba2017",
    "openb",
    "tianchi",
    "pai2020",
    "dlrm2025",
    "azure-vm",
    "swim",
    "google2019",
    "azure-llm",
    "generic",
)


@app.command
def compare(
    *,
    workload: Annotated[
        str, Parameter(help="founding, colocation, openb[:LIST], tianchi, dag[:JOBS], training or FILE.yaml.")
    ],
    traces: Annotated[
        Path | None, Parameter(help="Folder of real traces; default $COTENANT_TRACES, else ../shared/traces.")
    ] = None,
    policies: Annotated[
        str | None, Parameter(help="Names with commas between, or 'all'; default: the workload's own choice.")
    ] = None,
    seeds: Annotated[
        str | None,
        Parameter(help="Number of paired seeds (0, 1, ...), or seeds such as 20-29 or 0-4,20-29; default 10."),
    ] = None,
    load: Annotated[
        str | None, Parameter(help="Share of the cluster that the workload requests; several with commas: a sweep.")
    ] = None,
    interference: Annotated[
        float | None, Parameter(help="Scale of the world's contention: 0, 1 (calibrated), 2.")
    ] = None,
    pressure_law: Annotated[
        str | None,
        Parameter(
            help="Law of contention: linear (default), knee, queueing, or mixed: drawn by seed with its parameters."
        ),
    ] = None,
    estimate_error: Annotated[
        float | None, Parameter(help="Log-normal sd of the schedulers' estimates; default 0.2.")
    ] = None,
    declared_profiles: Annotated[
        bool | None,
        Parameter(
            help="Whether schedulers are shown each application's sensitivity, pressure and tolerance; default yes. "
            "No: as in a cluster, where nobody declares them."
        ),
    ] = None,
    node_qos: Annotated[bool | None, Parameter(help="Whether nodes protect services from batch; default yes.")] = None,
    failures: Annotated[bool | None, Parameter(help="Whether nodes fail and recover; default yes.")] = None,
    set_: Annotated[
        tuple[str, ...],
        Parameter(name="--set", help="POLICY.KNOB=VALUE: change a knob of one policy; may be repeated.", negative=()),
    ] = (),
    out: Annotated[
        Path | None, Parameter(help="Folder for runs, results and report; default runs/WORKLOAD-DIGEST.")
    ] = None,
    jobs: Annotated[int | None, Parameter(help="Parallel runs; default: one per core. 1 runs in this process.")] = None,
    on: Annotated[
        str | None, Parameter(help="ray://HOST:PORT: run on a Ray cluster, a run per CPU; default: this machine.")
    ] = None,
    json: Json = False,
) -> int:
    """Compare policies on a workload: a table, OUT/report.html, OUT/results.json and OUT/results.parquet.

    The same command continues an interrupted comparison. Exit status: 0 done, 1 a run failed, 2 bad input, 130
    interrupted. `cotenant lab metrics` defines every figure.
    """
    from cotenant_lab.cli import values
    from cotenant_lab.seeds import read_seeds

    values.check_jobs(jobs)  # all of this before the import of numpy and the lab
    if seeds is not None:
        read_seeds(seeds)
    if load is not None:
        values.read_loads(load)
    if pressure_law is not None:
        values.check_law(pressure_law)
    for name in set_:
        values.read_override(name)
    from cotenant_lab.cli import comparing

    request = comparing.CompareArguments(
        workload=workload,
        traces=traces,
        policies=policies,
        seeds=seeds,
        load=load,
        interference=interference,
        pressure_law=pressure_law,
        estimate_error=estimate_error,
        declared_profiles=declared_profiles,
        node_qos=node_qos,
        failures=failures,
        overrides=set_,
        out=out,
        jobs=jobs,
        on=on,
        json=json,
    )
    return comparing.compare(request)


@app.command
def tune(
    *,
    workload: Annotated[str, Parameter(help="founding, colocation or FILE.yaml.")],
    policy: Annotated[
        str, Parameter(help="Placement profile whose knobs are tuned; founding: the weights of the founding score.")
    ] = "cotenant-requests",
    trials: Annotated[int, Parameter(help="Sets of knobs to try, the defaults included.")] = 40,
    seeds: Annotated[str, Parameter(help="Seeds of the search.")] = "100-103",
    held_out: Annotated[str, Parameter(help="Seeds that judge the front at the end; none of --seeds.")] = "20-29",
    traces: Annotated[
        Path | None, Parameter(help="Folder of real traces; default $COTENANT_TRACES, else ../shared/traces.")
    ] = None,
    load: Annotated[
        str | None,
        Parameter(help="Share of the cluster that the workload requests; several with commas: objectives are means."),
    ] = None,
    pressure_law: Annotated[str | None, Parameter(help="Law of contention: linear, knee, queueing or mixed.")] = None,
    knob: Annotated[
        tuple[str, ...],
        Parameter(help="NAME=LOW:HIGH: search this knob; may be repeated. Default: the policy's own.", negative=()),
    ] = (),
    search_seed: Annotated[int, Parameter(help="Seed of the search itself.")] = 0,
    out: Annotated[
        Path | None, Parameter(help="Folder for runs, results and profiles; default runs/tune-WORKLOAD-POLICY-DIGEST.")
    ] = None,
    jobs: Annotated[int | None, Parameter(help="Parallel runs; default: one per core. 1 runs in this process.")] = None,
    on: Annotated[
        str | None, Parameter(help="ray://HOST:PORT: run on a Ray cluster, a run per CPU; default: this machine.")
    ] = None,
    json: Json = False,
) -> int:
    """Tune a policy's knobs for useful utilisation, fairness and SLO violation, and judge the Pareto front on held-out
    seeds.

    Writes OUT/report.html, OUT/tuning.json, OUT/profile.yaml (for `cotenant scheduler --profile`) and OUT/profiles/.
    The same command continues an interrupted search. Needs the extra `tune`. Exit status: 0 done, 1 a run failed, 2 bad
    input, 130 interrupted.
    """
    from cotenant_lab.cli import tuning

    return tuning.tune(
        tuning.TuneArguments(
            workload=workload,
            policy=policy,
            trials=trials,
            seeds=seeds,
            held_out=held_out,
            traces=traces,
            load=load,
            pressure_law=pressure_law,
            knobs=knob,
            search_seed=search_seed,
            out=out,
            jobs=jobs,
            on=on,
            json=json,
        )
    )


@app.command
def workloads(*, json: Json = False) -> int:
    """List the workloads."""
    from cotenant_lab.cli import listing

    return listing.workloads(json)


@app.command
def policies(
    *,
    workload: Annotated[str, Parameter(help="The workload.")] = "founding",
    json: Json = False,
) -> int:
    """List the policies that a workload can run, each with its role: ours, rival, variant, bound or ablation."""
    from cotenant_lab.cli import listing

    return listing.policies(workload, json)


@app.command
def metrics(
    *,
    markdown: Annotated[bool, Parameter(negative=(), help="As a page of documentation.")] = False,
    json: Json = False,
) -> int:
    """Define every figure: unit, direction, exact definition, and what determines it."""
    from cotenant_lab.cli import listing

    return listing.metrics(markdown, json)


@app.command
def formats(*, json: Json = False) -> int:
    """List the trace formats that `import` reads: description, tables, provenance and licence."""
    from cotenant_lab.cli import listing

    return listing.formats(json)


@app.command(name="import")
def import_(
    format: Annotated[str, Parameter(help=f"Format of the source: {', '.join(FORMATS)}. See `cotenant lab formats`.")],
    source: Annotated[Path, Parameter(help="File or folder to read.")],
    destination: Annotated[Path, Parameter(help="Parquet file or folder to write.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Convert a trace to Parquet once, and report its bad rows by kind and line."""
    from cotenant_lab.cli import importing

    return importing.import_trace(format, source, destination, json)


DUMPED = ("google2019", "alibaba2018", "azure-vm", "openb", "tianchi")


@app.command
def dump(
    format: Annotated[str, Parameter(help=f"Format of the trace: {', '.join(DUMPED)}.")],
    folder: Annotated[Path, Parameter(help="Its folder.")],
    out: Annotated[Path, Parameter(help="The file to write, a zip.")],
    /,
) -> int:
    """Write a trace as the copy of a cluster, for `cotenant assess report OUT`."""
    from cotenant_lab.cli import dumping

    return dumping.dump_trace(format, folder, out)


@app.command
def what_if(
    *files: Annotated[Path, Parameter(name="FILE")],
    what_if: Annotated[
        tuple[str, ...],
        Parameter(
            name="--what-if", negative=(), help="As of `cotenant assess report`. May be repeated: each is a case."
        ),
    ] = (),
    seeds: Annotated[int, Parameter(help="Seeds of each case, of the law of contention, and of the day of use.")] = 10,
    json: Json = False,
) -> int:
    """Say of a copy of a cluster what changes would do to contention, beside what `cotenant assess report` says.

    FILE is one of `cotenant assess dump`, with use over time. Neighbours slow one another by the mixed law, drawn by
    seed; how sensitive a workload is, is drawn too, since no copy has it. Exit status: 0 reported, 2 bad input.
    """
    from cotenant.services.assess.what_ifs.writing import check_seeds, read_what_ifs

    check_seeds(seeds)
    cases = read_what_ifs(what_if)
    from cotenant_lab.cli import what_ifs

    return what_ifs.report(files, cases, range(seeds), json)


@app.command
def explain(
    run: Annotated[Path, Parameter(help="The --out folder of a comparison.")],
    task: Annotated[str, Parameter(help="The task's name in the workload.")],
    /,
    *,
    policy: Annotated[str | None, Parameter(help="The policy; default: ours.")] = None,
    seed: Annotated[int | None, Parameter(help="The seed; default: the first.")] = None,
    load: Annotated[float | None, Parameter(help="The load; default: the first.")] = None,
    json: Json = False,
) -> int:
    """Explain why a task was placed on its node, or was not placed: repeats the run with recording on."""
    from cotenant_lab.cli import explaining

    return explaining.explain(run, task, policy, seed, load, json)


@app.command
def scenes(
    *,
    seed: Annotated[int, Parameter(help="Of the wake-ups.")] = 1,
    readings: Annotated[int, Parameter(help="Readings, of a second each, in each phase.")] = 120,
    rules: Annotated[
        bool, Parameter(help="The zone follows its rules instead of what it learned.", negative=())
    ] = False,
    seeds: Annotated[str, Parameter(help="A day of each of these seeds, with intervals: 20, or 1001-1020.")] = "",
    restart: Annotated[
        str,
        Parameter(
            help="The zone's process starts again at the sixth phase: nothing, kept (with what it learned), lost."
        ),
    ] = "nothing",
    json: Json = False,
) -> int:
    """A day of changing phases on one simulated CPU: a Control Zone that learns which scheduler serves each scene,
    against every fixed one. Outcomes are 0 to 1; regret is what the best fixed one of a phase had more, summed.
    """
    from cotenant_lab.cli import scene_day

    return scene_day.report(seed, readings, scenes=not rules, as_json=json, seeds=seeds, restart=restart)


@app.command
def gpus(
    *,
    policies: Annotated[str, Parameter(help="Rules of sharing with commas, or all.")] = "all",
    seeds: Annotated[str, Parameter(help="Seeds that are reported: a number of them, or such as 20-29.")] = "40-49",
    tuning_seeds: Annotated[str, Parameter(help="Seeds on which each rule is tuned; none of --seeds.")] = "100-102",
    jobs: Annotated[int, Parameter(help="Parallel runs, each in a process of its own.")] = 1,
    requests: Annotated[
        tuple[Path, ...],
        Parameter(help="Recorded requests, format azure-llm, CSV or Parquet; several files are one stream."),
    ] = (),
    json: Json = False,
) -> int:
    """Model servers with continuous batching beside offline jobs on one simulated machine of 16 GPUs: dedicated cards,
    spot, GFS, MPS, time-slices, FGD and ours at the same objectives of first token and time per token.

    Each rule is tuned on --tuning-seeds: the most offline work with at most 1 % of the requests over their objective.
    """
    from cotenant_lab.cli import gpus as gpus_command

    return gpus_command.report(seeds, tuning_seeds, policies, jobs, requests, as_json=json)
