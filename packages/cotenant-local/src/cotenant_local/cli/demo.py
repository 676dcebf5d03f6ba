"""`cotenant demo`: a demonstration without a cluster, in a few minutes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from cotenant_local.demo.page import Neighbour, NodeSide


def demo(
    *,
    profile: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative=())] = (),
    nodes: int = 100,
    workload: str = "founding",
    load: float = 1.2,
    seconds: float = 35.0,
    seed: int = 1,
    out: Path = Path("runs/demo"),
    node: bool = True,
    console: bool = True,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Demonstrate cotenant on this machine: a local cluster, services and batch as manifests, placed by our scheduler
    while the load rises.

    Then the node side, on this machine's own cgroups: a service with sine-wave load beside batch work, with and without
    the agent.

    Parameters
    ----------
    profile
        Placement profiles to show, one after another. PROFILE+POLICY adds a manager, which lends by peak or usage what
        services leave idle. Default: kube-default, kube-default+usage, cotenant+peak.
    nodes
        Simulated nodes.
    workload
        founding or colocation.
    load
        Share of the nodes' CPU that the workload requests over the day, 0.3 to 2.
    seconds
        Wall time for each profile.
    seed
        Seed of the workload.
    out
        Folder of the report.
    node
        Show the node side too, if this machine supports it (root and cgroups).
    console
        Serve a console of each cluster while its day runs, and print the link.
    as_json
        Print one JSON object instead of a table.
    """
    from cotenant.cli import tables
    from cotenant.model.errors import InvalidInput
    from cotenant_local.demo import page
    from cotenant_local.demo.assessment import assessed
    from cotenant_local.demo.run import SHOWN, DemoConfig, run

    config = DemoConfig(
        profiles=profile or SHOWN, nodes=nodes, workload=workload, load=load, seconds=seconds, seed=seed
    )
    if out.exists() and not out.is_dir():
        raise InvalidInput("--out", str(out), "a folder", "a file of that name is in the way")
    assessment = out / "assess.html"
    show = None if as_json or not console else _show
    outcomes = run(config, _ticker(), show, lambda kubeconfig: assessed(kubeconfig, assessment))
    neighbour = _neighbour(seed)
    report = out / "report.html"
    page.write(report, config, outcomes, neighbour=neighbour)
    if as_json:
        node_result: dict[str, object] = {"skipped": "not requested"}
        if node:
            side = _node_side(out, quiet=True)
            page.write(report, config, outcomes, side, neighbour)
            node_result = _node_object(side)
        rows = [dict(zip(page.COLUMNS, page.row(outcome), strict=True)) for outcome in outcomes]
        behind = {outcome.profile: outcome.behind for outcome in outcomes if outcome.behind}
        print(
            json.dumps(
                {
                    "rows": rows,
                    "behind": behind,
                    "meaning": page.explanation(config),
                    "report": str(report),
                    "assessment": {"says": outcomes[0].assessment, "report": str(assessment)},
                    "node": node_result,
                }
            )
        )
        return 0
    _print(page.COLUMNS, [page.row(outcome) for outcome in outcomes])
    for line in page.warnings(outcomes):
        print()
        tables.print_folded(line)
    print()
    tables.print_folded(page.verdict(outcomes))
    print(f"\n{page.explanation(config)}\n")
    if neighbour is not None:
        print("A neighbour hurts a service, in virtual time:")
        for at_s, text in neighbour.events:
            tables.print_folded(f"  {at_s:.0f} s: {text}")
        print()
    _print_assessment(outcomes[0].assessment, report, assessment)
    if node:
        print()
        page.write(report, config, outcomes, _node_side(out, quiet=False), neighbour)
    return 0


def _print_assessment(says: str, report: Path, assessment: Path) -> None:
    from cotenant.cli import tables

    print("What `cotenant assess` says of the first of these clusters, as it would of yours:")
    tables.print_folded(f"  {says}")
    print(f"\nreport: {report}; the assessment: {assessment}")
    print(
        "see also: cotenant up --nodes 10 --workload colocation     (a lasting cluster with the whole loop, for "
        "kubectl)"
    )
    print("              cotenant lab compare --workload founding         (policies compared, with intervals)")


def _neighbour(seed: int) -> Neighbour | None:
    """A neighbour that hurts a service; None without the extra `traces`, which draws its requests."""
    from cotenant_local.demo.page import Neighbour

    try:
        from cotenant_local.demo import neighbour
        from cotenant_local.up.simulated.shop import FIRST_S, OBJECTIVE_MS
    except ImportError:
        return None
    acted, alone = neighbour.watch(seed), neighbour.watch(seed, has_agent=False)
    return Neighbour(acted.p99_ms, alone.p99_ms, OBJECTIVE_MS, FIRST_S, acted.events)


def _node_side(out: Path, quiet: bool) -> NodeSide:
    """Run the node side if this machine supports it, else print why not; the demonstration continues either way."""
    from cotenant.model.errors import CotenantError
    from cotenant_local.demo.page import NodeSide

    try:
        from cotenant_lab.cli import node_experiments as experiments

        outcome = experiments.demonstrate(out / "node", quiet)
    except (CotenantError, ImportError) as error:
        reason = str(error) if isinstance(error, CotenantError) else f"{error}: pip install 'cotenant[node]'"
        if not quiet:
            print(f"the node side is not shown: {reason}")
        return NodeSide(skipped=reason)
    if not quiet:
        experiments.show(outcome, out / "node")
        print(f"in one page with the days: {out / 'report.html'}")
        print("see also: cotenant node status;  cotenant node experiment guard|antagonist|burst|overhead|step")
    return NodeSide(outcome, experiments.DEMONSTRATION)


def _node_object(side: NodeSide) -> dict[str, object]:
    """The node side as a part of the JSON object."""
    if side.found is None:
        return {"skipped": side.skipped}
    from cotenant_lab.experiments import registry

    return dict(json.loads(registry.encode(side.found)))


def _print(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    from rich.table import Table

    from cotenant.cli import tables

    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(columns):
        table.add_column(name, justify="left" if i == 0 else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*row)
    tables.console().print(table)


def _show(profile: str, link: str) -> None:
    """A line with the link to the console of the cluster that runs now, or that it has ended."""
    if link:
        print(f"{profile}: watch it live at {link}  (works once, until this day ends)", file=sys.stderr, flush=True)
    else:
        print(f"{profile}: the day is over, its cluster and console are gone", file=sys.stderr, flush=True)


def _ticker() -> Callable[[str, float], None]:
    """A progress line on standard error: redrawn on a terminal, one line per profile otherwise."""
    is_terminal = sys.stderr.isatty()
    announced: set[str] = set()

    def tick(profile: str, share: float) -> None:
        if is_terminal:
            print(
                f"\r{profile:<24} {'#' * round(share * 30):<30} {share:4.0%}",
                end="\n" if share >= 1.0 else "",
                file=sys.stderr,
            )
        elif profile not in announced:
            announced.add(profile)
            print(f"{profile}: its cluster is up, the day begins", file=sys.stderr)

    return tick
