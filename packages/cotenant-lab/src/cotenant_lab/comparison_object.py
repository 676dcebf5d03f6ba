"""A comparison as the JSON object that `--json` prints and `results.json` keeps."""

from __future__ import annotations

from math import isfinite, isinf

from cotenant_lab.comparison import Comparison, ComparisonRow
from cotenant_lab.derived_metrics import USED_AT_OBJECTIVE


def to_object(comparison: Comparison) -> dict[str, object]:
    """The `--json` object: fractions 0..1, each figure with the half width of its interval in `_ci`.

    NaN and infinities are None, as JSON has neither; a note names the infinite ones.
    """

    def number(value: float) -> float | None:
        return value if isfinite(value) else None

    def figures(row: ComparisonRow) -> dict[str, object]:
        shown: dict[str, object] = {
            "policy": row.policy,
            "role": row.role,
            "load": row.load,
            "seeds": row.seeds,
        }
        for name in comparison.metrics:
            value = row.get(name)
            shown[name], shown[f"{name}_ci"] = number(value.mean), number(value.half_width)
        shown["by_class"] = {
            name: {"mean": number(entry.mean), "ci": number(entry.half_width)} for name, entry in row.by_class.items()
        }
        return shown

    return {
        "workload": comparison.workload,
        "file": comparison.file or None,
        "seeds": len(comparison.seeds),
        "seed_list": list(comparison.seeds),
        "loads": list(comparison.loads),
        "ours": comparison.ours,
        "rows": [figures(row) for row in comparison.rows],
        "paired": [
            {
                "policy": paired.policy,
                "against": paired.against,
                "metric": paired.metric,
                "load": number(paired.load),
                "difference": number(paired.difference.mean),
                "difference_ci": number(paired.difference.half_width),
                "seeds": paired.difference.count,
            }
            for paired in comparison.paired
        ],
        "sustained_load": [
            {
                "policy": row.policy,
                "role": row.role,
                "sustained_load": number(row.mean.mean),
                "sustained_load_ci": number(row.mean.half_width),
                "bound": row.bound,
                "bounded_seeds": row.bounded,
                "of_means": row.of_means.load,
                "of_means_bound": row.of_means.bound,
                "by_seed": [sustained.load for sustained in row.by_seed],
            }
            for row in comparison.sustained
        ],
        USED_AT_OBJECTIVE.name: [
            {
                "policy": row.policy,
                "used": number(row.mean.mean),
                "used_ci": number(row.mean.half_width),
                "bound": row.bound,
                "ratio": number(row.ratio.mean),
                "ratio_ci": number(row.ratio.half_width),
                "against": comparison.ours,
            }
            for row in comparison.used_at_objective
        ],
        "notes": [*comparison.notes, *_infinite(comparison)],
        "failed": list(comparison.failures),
    }


def _infinite(comparison: Comparison) -> tuple[str, ...]:
    """A note that names the columns whose null means infinite, by policy; none if there are none."""
    found = []
    for row in comparison.rows:
        columns = [name for name in comparison.metrics if isinf(row.get(name).mean)]
        columns += [f"by_class.{name}" for name, entry in row.by_class.items() if isinf(entry.mean)]
        if columns:
            at = f" at load {row.load:g}" if len(comparison.loads) > 1 else ""
            found.append(f"{', '.join(columns)} of {row.policy}{at}")
    if not found:
        return ()
    return (
        "null means not defined, except where it stands for infinity (some pod or job never ended): "
        f"{'; '.join(found)}",
    )
