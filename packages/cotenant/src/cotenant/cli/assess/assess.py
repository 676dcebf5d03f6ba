"""`cotenant assess`: what would be different on a cluster, without installing anything.

Only signatures and help texts are here; the implementation is imported when a command runs, so that `--help` stays
quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from cotenant.cli.access import check_access
from cotenant.cli.options import Json
from cotenant.services.assess.assess_arguments import ReadArguments, check, check_output, check_risk
from cotenant.services.options import GIVEN, WorkloadKinds

if TYPE_CHECKING:
    from cotenant.model.assess.what_if import AskedCases

app = App(
    name="assess",
    help="Say what a cluster wastes, could lend and would place elsewhere; reads once, writes nothing.",
    help_format="plaintext",
)
Html = Annotated[Path | None, Parameter(name="--html", help="Write the report as one HTML file too.")]
Prices = Annotated[
    Path | None, Parameter(help="A file of prices (ours, or OpenCost's CSV): what a month costs, by whom.")
]
Risk = Annotated[
    float, Parameter(name="--risk-percent", help="Share of time in which services may need what was lent.")
]
WhatIf = Annotated[
    tuple[str, ...],
    Parameter(
        name="--what-if",
        negative=(),
        help="Changes with blanks between: add=N:SHAPE, remove=N:SHAPE, zone-lost=ZONE, load=1.3, overcommit=off, "
        "policy=PROFILE, size=NAMESPACE/NAME:cpu=500m,memory=1Gi. May be repeated: each is a case, two are compared.",
    ),
]
Seeds = Annotated[int, Parameter(help="Seeds of each case: which nodes go, which pods are copied, who comes first.")]


@app.default
def assess(
    *,
    request: Annotated[ReadArguments, GIVEN] = ReadArguments(),
    html: Html = None,
    prices: Prices = None,
    risk_percent: Risk = 1.0,
    what_if: WhatIf = (),
    seeds: Seeds = 5,
    json: Json = False,
) -> int:
    """Read a cluster and report what it wastes, what it could lend, and what would be placed elsewhere.

    Reads with get and list only, at most 20 requests a second, and writes nothing to it. Exit status: 0 reported, 1 no
    answer, 2 bad input, 3 reported, but some kinds could not be read.
    """
    _check(request, html, risk_percent)
    asked = _what_ifs(what_if, seeds)
    check_access(request.kubeconfig, request.context)
    from cotenant.cli.assess import assess_showing

    return assess_showing.assess(request, html, prices, risk_percent / 100, asked, json)


@app.command
def dump(
    out: Path,
    /,
    *,
    request: Annotated[ReadArguments, GIVEN] = ReadArguments(),
    anonymise: Annotated[
        bool, Parameter(negative=(), help="Put words for all names, images and labels; amounts stay.")
    ] = False,
) -> int:
    """Write a copy of the cluster to OUT, a zip, for `cotenant assess report` on another machine.

    Reads with get and list only: nodes, pods, their owners, budgets, volumes, quotas and groups; no Secret, ConfigMap,
    environment or argument. Exit status: 0 written, 1 no answer, 2 bad input, 3 written, but some kinds could not be
    read.
    """
    check(request)
    check_output("OUT", out)
    check_access(request.kubeconfig, request.context)
    from cotenant.cli.assess import assess_showing

    return assess_showing.dump(request, out, anonymise)


@app.command
def report(
    *files: Annotated[Path, Parameter(name="FILE")],
    html: Html = None,
    prices: Prices = None,
    risk_percent: Risk = 1.0,
    what_if: WhatIf = (),
    seeds: Seeds = 5,
    workload_kinds: Annotated[WorkloadKinds, Parameter(group=None)] = None,
    quiet: Annotated[bool, Parameter(negative=(), help="Print no progress.")] = False,
    json: Json = False,
) -> int:
    """Report on a copy: FILE is one of `cotenant assess dump`, or files of `kubectl get nodes,pods,... -A -o json`.

    `--workload-kinds` counts for kubectl's files. No cluster is asked. Exit status: 0 reported, 2 bad input, 3
    reported, but the copy lacks kinds that could not be read.
    """
    _check(ReadArguments(), html, risk_percent)
    asked = _what_ifs(what_if, seeds)
    from cotenant.cli.assess import assess_showing

    return assess_showing.report(files, workload_kinds, html, prices, risk_percent / 100, asked, quiet, json)


def _what_ifs(written: tuple[str, ...], seeds: int) -> AskedCases:
    from cotenant.model.assess.what_if import AskedCases

    if not written:
        return AskedCases((), ())
    from cotenant.services.assess.what_ifs.writing import check_seeds, read_what_ifs

    check_seeds(seeds)
    return AskedCases(read_what_ifs(written), tuple(range(seeds)))


def _check(request: ReadArguments, html: Path | None, risk_percent: float) -> None:
    check(request)
    check_risk(risk_percent)
    if html is not None:
        check_output("--html", html)
