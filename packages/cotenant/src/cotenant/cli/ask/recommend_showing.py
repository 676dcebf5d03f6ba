"""Prints what `cotenant profile recommend` found: a table with the reasons below it, JSON, or documents."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from cotenant.cli.tables import print_folded, print_line, print_words
from cotenant.model.assess.history import ClusterHistory, no_history
from cotenant.model.printable import printable
from cotenant.model.quantities import format_bytes, format_milli
from cotenant.model.sizes.recommendation import Recommendation, SizeBackTest, SizeBasis
from cotenant.services.assess.assess_arguments import ReadArguments
from cotenant.services.assess.copy_reading import read_files, read_use
from cotenant.services.prices import price_table
from cotenant.services.sizes.forms import costs, written
from cotenant.services.sizes.recommending import Advice, SizeQuery, advise
from cotenant.services.sizes.size_facts import SizedCluster, read_sized_cluster, sized_copy

INCOMPLETE = 3  # exit status: something could not be read or recommended, the rest is there
_NO_HISTORY = "The copy has no use over time: `cotenant assess dump --prometheus URL` makes one that has."


def recommend(
    request: ReadArguments, wanted: SizeQuery, file: Path | None, prices: Path | None, form: str, as_json: bool
) -> int:
    """Read, recommend and print; returns the exit status."""
    table = price_table(prices)
    cluster, history = _read(request, file)
    if history is None:
        history = no_history(_NO_HISTORY)
    advice = advise(cluster, history.pods, history.faults, wanted, table)
    if as_json:
        print(msgspec.json.encode(advice).decode())
    elif form:
        sys.stdout.write(written(form, advice))
    else:
        _show(advice)
    is_whole = not advice.faults and all(one.after is not None for one in advice.recommendations)
    return 0 if is_whole else INCOMPLETE


def _read(request: ReadArguments, file: Path | None) -> tuple[SizedCluster, ClusterHistory | None]:
    if file is None:
        cluster = read_sized_cluster(request.kubeconfig, request.context, request.limit_qps, request.timeout_s)
        return cluster, read_use(request, lambda what, done, of: None, by_container=True)
    snapshot, history = read_files((file,))
    return sized_copy(snapshot), history


def _show(advice: Advice) -> None:
    print_words(
        ("workload", "container", "pods", "CPU now", "then", "memory now", "then", "tried"),
        [_row(one) for one in advice.recommendations],
        right=("pods",),
    )
    print()
    for one in advice.recommendations:
        _explain(one, advice)
    print_folded(advice.source)
    for fault in advice.faults:
        print_folded(f"Not known: {fault}.")


def _row(one: Recommendation) -> tuple[str, ...]:
    before, after = one.before, one.after
    cells = [_pair(before.cpu_request_m, before.cpu_limit_m, format_milli)]
    cells.append("-" if after is None else _pair(after.cpu_request_m, after.cpu_limit_m, format_milli))
    cells.append(_pair(before.memory_request_bytes, before.memory_limit_bytes, format_bytes))
    cells.append("-" if after is None else _pair(after.memory_request_bytes, after.memory_limit_bytes, format_bytes))
    tried = "-" if one.cpu is None else _tried(one.cpu.trial)
    return (one.workload, one.container, str(one.replicas), *cells, tried)


def _pair(request: int | None, limit: int | None, shown: Callable[[int], str]) -> str:
    if request is None and limit is None:
        return "unset"
    return f"{'-' if request is None else shown(request)}/{'-' if limit is None else shown(limit)}"


def _tried(trial: SizeBackTest) -> str:
    return "-" if trial.risk is None else f"{trial.days} d, {100 * trial.risk:.2g} %"


def _explain(one: Recommendation, advice: Advice) -> None:
    print_line(f"{one.workload} {one.container}", strong=True)
    if one.cpu is not None:
        print_folded(f"  CPU: {_basis(one.cpu, 'm')}")
    if one.memory is not None:
        print_folded(f"  memory: {_basis(one.memory, ' MiB')}")
    for said in (*costs(one, advice.currency), *one.why):
        print_folded(f"  {said}")


def _basis(basis: SizeBasis, unit: str) -> str:
    trial = (
        ""
        if basis.trial.risk is None
        else (
            f"; on {basis.trial.days} earlier days use was above such a size {100 * basis.trial.risk:.2g} % of the time"
        )
    )
    return printable(
        f"below {basis.amount:,.0f}{unit} by {basis.rule}, highest {basis.highest:,.0f}{unit}; set by {basis.set_by}"
        f"{trial}"
    )
