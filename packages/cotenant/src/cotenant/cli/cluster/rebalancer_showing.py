"""Output of `cotenant rebalancer plan`: the moves as a table, what is kept with reasons, or the whole plan as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cotenant.cli import tables
from cotenant.engine.rebalancer.jobs import LOW_NODE_LOAD
from cotenant.engine.rebalancer.plan import KeptPod, MovePlan, PlannedMove
from cotenant.model.counted import counted
from cotenant.model.resources import CPU_NAME, MEMORY_NAME
from cotenant.services.rebalancer import planning
from cotenant.services.rebalancer.rebalancer_arguments import PlanArguments

HEADINGS = ("pod", "uses", "from", "its use, %", "to", "its use, %")
PREDICTED = ("pod", "uses", "from, to", "its use, %", "objective of", "used, %")  # two lines a move; 100 = at the limit
_MEBIBYTE, _GIBIBYTE = 1 << 20, 1 << 30
_MAX_REASONS = 12
_MAX_NODES = 5


def plan(request: PlanArguments, as_json: bool) -> int:
    """Plan one round and print it."""
    found = planning.plan(request)
    if as_json:
        print(planning.plan_json(found).decode())
        return 0
    show(found)
    return 0


def show(found: MovePlan) -> None:
    """Print a plan."""
    tables.print_folded(summary(found))
    for line in pool_lines(found):
        tables.print_folded(line)
    for line in kind_lines(found):
        tables.print_folded(line)
    if found.moves:
        print()
        if any(move.effect is not None for move in found.moves):
            tables.print_words(PREDICTED, [line for move in found.moves for line in predicted_rows(move)])
        else:
            tables.print_words(HEADINGS, [row(move) for move in found.moves])
        print()
        for line in reason_lines(found):
            tables.print_folded(line)
    if found.kept:
        print()
        tables.print_folded(f"{counted(len(found.kept), 'pod')} considered and not moved:")
        for line in kept_lines(found.kept):
            tables.print_folded(line)
    if found.notes:
        print()
        tables.print_folded("Not applied in this dry run:")
        for note in found.notes:
            tables.print_folded(f"  {note}")


def summary(found: MovePlan) -> str:
    """The first line."""
    measured = found.nodes - len(found.unmeasured)
    text = (
        f"{counted(found.nodes, 'node')}, {measured} with a current NodeMetric; {counted(found.pods, 'pod')}: "
        f"{counted(len(found.moves), 'move')}. Nothing was evicted."
    )
    if found.nodes and not measured:
        text += (
            " Without NodeMetrics no move by load can be planned: they are written by `cotenant agent` or "
            "koordlet, in `cotenant up` with --manager."
        )
    if found.placed_first:
        text += (
            f" In the simulation {counted(found.placed_first, 'pending pod')} "
            f"{'was' if found.placed_first == 1 else 'were'} placed first."
        )
    return text


def pool_lines(found: MovePlan) -> Iterator[str]:
    """What was found in each pool."""
    for pool in found.pools:
        nodes = counted(pool.nodes, "node")
        if pool.note:
            yield f"pool {pool.name}: {pool.note}; {len(pool.still_overloaded)} of {nodes} overloaded"
            continue
        left = f", after the moves {len(pool.still_overloaded)}" + (
            f" ({', '.join(pool.still_overloaded[:_MAX_NODES])}"
            f"{', ...' if len(pool.still_overloaded) > _MAX_NODES else ''})"
            if pool.still_overloaded
            else ""
        )
        yield (f"pool {pool.name}: {len(pool.overloaded)} of {nodes} overloaded{left}; {pool.underused} underused")


def kind_lines(found: MovePlan) -> Iterator[str]:
    """What the kinds of moves other than LowNodeLoad found."""
    for kind in found.kinds:
        said = f"{kind.considered} found, {kind.solved} solved by this plan" if kind.considered else "nothing found"
        yield f"{kind.trigger}: {'; '.join((said, *kind.notes) if kind.considered or not kind.notes else kind.notes)}"


def predicted_rows(move: PlannedMove) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """One move with its predicted effect, a line each for its two nodes: objectives in percent of what each pod
    tolerates, of the pod and of the worst of its new neighbours, before and after.
    """
    pod, uses, node, use, target, target_use = row(move)
    effect = move.effect
    own = "-" if effect is None else _change_of(effect.pod_before, effect.pod_after)
    others = "-" if effect is None else _change_of(effect.target_before, effect.target_after)
    return (pod, uses, node, use, "the pod", own), ("", "", f"-> {target}", target_use, "neighbours", others)


def _change_of(before: float | None, after: float | None) -> str:
    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100.0 * value:.0f}"

    return "-" if before is None and after is None else f"{percent(before)} -> {percent(after)}"


def row(move: PlannedMove) -> tuple[str, ...]:
    """One move, with the resource that is most above its threshold."""
    name = move.over[0] if move.over else CPU_NAME
    return (
        move.pod,
        f"{move.used.get(CPU_NAME, 0)}m {size(move.used.get(MEMORY_NAME, 0))}",
        move.node,
        _change(name, move.node_before, move.node_after),
        move.target,
        _change(name, move.target_before, move.target_after),
    )


def size(amount: int) -> str:
    """Bytes, rounded for a table."""
    return f"{amount / _GIBIBYTE:.1f}Gi" if amount >= _GIBIBYTE else f"{amount / _MEBIBYTE:.0f}Mi"


def reason_lines(found: MovePlan) -> Iterator[str]:
    """Why pods leave each node: its use before the first of its moves. Other kinds: why each pod moves."""
    seen = set()
    for move in found.moves:
        if move.trigger != LOW_NODE_LOAD:
            yield f"{move.pod}: {move.reason} ({move.trigger})"
        elif (move.node, move.scope) not in seen:
            seen.add((move.node, move.scope))
            whose = " of production pods" if move.scope == "prod" else ""
            yield f"{move.node}: use{whose} {move.reason}"


def kept_lines(kept: tuple[KeptPod, ...]) -> Iterator[str]:
    """Reasons with counts, the most frequent first."""
    by_reason: dict[str, list[str]] = {}
    for kept_pod in kept:
        by_reason.setdefault(kept_pod.reason, []).append(kept_pod.pod)
    ordered = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    for reason, pods in ordered[:_MAX_REASONS]:
        yield f"  {len(pods)}: {reason} ({pods[0]}{', ...' if len(pods) > 1 else ''})"
    if len(ordered) > _MAX_REASONS:
        yield f"  and {counted(len(ordered) - _MAX_REASONS, 'more reason')}: --json"


def _change(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> str:
    if not before and not after:
        return "-"  # not measured
    return f"{name.rpartition('/')[2]} {before.get(name, 0.0):.0f} -> {after.get(name, 0.0):.0f}"
