"""Prometheus' text of a model server into a reading, within bounds.

What is asked is written by whoever runs the server, so nothing of it is made into objects before its line was found to
begin with a name that counts: a page of other metrics costs a look at each line. A line, a label's value and the number
of series are bounded. A histogram counts only whole: with an infinite edge, edges that ascend and counts that do not
fall.
Limits: the classic text format; no native histograms. Edges are compared to the microsecond.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from io import StringIO
from itertools import pairwise
from math import inf, isfinite

from prometheus_client.parser import text_fd_to_metric_families

from cotenant.drivers.modelserver.vocabulary import VOCABULARIES, Vocabulary
from cotenant.model.errors import InvalidInput
from cotenant.model.traces.model_server import (
    LONGEST_EDGE_US,
    ModelMeasure,
    ModelServerReading,
    ServerHistogram,
)

MAX_BYTES = 8 << 20
MAX_LINES = 100_000
MAX_LINE = 4096
MAX_SERIES = 256  # of all histograms that count
MAX_EDGES = 256
MAX_COUNT = 2**53  # beyond it a float is no exact count
_MAX_MODEL = 200
_STARTED = "process_start_time_seconds"

_Sample = tuple[str, Mapping[str, str], float]


def read_exposition(text: str) -> ModelServerReading:
    """Raises `InvalidInput` where it is no known server's, or not within bounds."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise InvalidInput("/metrics", f"{len(lines)} lines", f"at most {MAX_LINES}")
    vocabulary = _vocabulary(lines)
    wanted = _samples(_counting(lines, vocabulary))
    by_name: dict[str, list[_Sample]] = defaultdict(list)
    for sample in _of_first_ranks(wanted, vocabulary.rank_labels):
        by_name[sample[0]].append(sample)
    histograms: list[ServerHistogram] = []
    for measure, names in vocabulary.histograms.items():
        name = next((name for name in names if f"{name}_bucket" in by_name), None)
        if name is not None:
            histograms += _histograms(measure, by_name[f"{name}_bucket"], vocabulary)
    if len(histograms) > MAX_SERIES:
        raise InvalidInput("/metrics", f"{len(histograms)} series of histograms", f"at most {MAX_SERIES}")
    started = by_name.get(_STARTED)
    return ModelServerReading(
        vocabulary.server,
        tuple(histograms),
        started[0][2] if started and isfinite(started[0][2]) else None,
        _summed(by_name, vocabulary.generated_tokens),
        _summed(by_name, vocabulary.running),
        _summed(by_name, vocabulary.waiting),
    )


def _vocabulary(lines: Iterable[str]) -> Vocabulary:
    prefixes = tuple(vocabulary.prefix for vocabulary in VOCABULARIES)
    found: set[str] = set()
    for line in lines:
        if line.startswith(prefixes):
            found |= {prefix for prefix in prefixes if line.startswith(prefix)}
    first = next((vocabulary for vocabulary in VOCABULARIES if vocabulary.prefix in found), None)
    if first is None:
        known = ", ".join(vocabulary.server for vocabulary in VOCABULARIES)
        raise InvalidInput("/metrics", "no metric of a model server", f"the metrics of one of {known}")
    return first


def _counting(lines: Iterable[str], vocabulary: Vocabulary) -> list[str]:
    """The lines whose metric counts."""
    names = {f"{name}_bucket" for choice in vocabulary.histograms.values() for name in choice}
    names |= {*vocabulary.generated_tokens, *vocabulary.running, *vocabulary.waiting, _STARTED}
    found = []
    for line in lines:
        name = line[: MAX_LINE + 1].partition("{")[0].partition(" ")[0]
        if name in names:
            if len(line) > MAX_LINE:
                raise InvalidInput(f"/metrics: {name}", f"a line of {len(line)} characters", f"at most {MAX_LINE}")
            found.append(line)
    if len(found) > MAX_SERIES * MAX_EDGES:
        raise InvalidInput("/metrics", f"{len(found)} samples", f"at most {MAX_SERIES * MAX_EDGES}")
    return found


def _samples(lines: list[str]) -> list[_Sample]:
    try:
        return [
            (sample.name, sample.labels, float(sample.value))
            for family in text_fd_to_metric_families(StringIO("\n".join(lines)))
            for sample in family.samples
        ]
    except (ValueError, KeyError, IndexError) as error:  # the parser's own for lines that are none
        raise InvalidInput("/metrics", str(error)[:80], "Prometheus' text format") from None


def _of_first_ranks(samples: list[_Sample], rank_labels: tuple[str, ...]) -> list[_Sample]:
    """Without those that differ from others in a higher rank only."""
    if not rank_labels:
        return samples
    first: dict[tuple[str, frozenset[tuple[str, str]]], tuple[tuple[int, str], ...]] = {}
    placed = []
    for sample in samples:
        name, labels, _ = sample
        ranks = tuple((len(text), text) for text in (labels.get(label, "") for label in rank_labels))  # 9 before 10
        key = name, frozenset((label, text) for label, text in labels.items() if label not in rank_labels)
        first[key] = min(first.get(key, ranks), ranks)
        placed.append((key, ranks, sample))
    return [sample for key, ranks, sample in placed if ranks == first[key]]


def _histograms(measure: ModelMeasure, samples: list[_Sample], vocabulary: Vocabulary) -> list[ServerHistogram]:
    by_series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = defaultdict(list)
    for _, labels, value in samples:
        series = tuple(sorted((name, text) for name, text in labels.items() if name != "le"))
        by_series[series].append((_edge(labels.get("le", "")), value))
    return [_histogram(measure, dict(series), edges, vocabulary) for series, edges in by_series.items()]


def _histogram(
    measure: ModelMeasure, labels: Mapping[str, str], samples: list[tuple[float, float]], vocabulary: Vocabulary
) -> ServerHistogram:
    ordered = sorted(samples)
    edges, counts = [edge for edge, _ in ordered], [count for _, count in ordered]
    where = f"/metrics: {measure}"
    if not edges or edges[-1] != inf or len(edges) > MAX_EDGES or len(set(edges)) < len(edges):
        raise InvalidInput(where, f"edges {edges[:4]}", f"up to {MAX_EDGES} different ones, the last infinite")
    is_count = all(0 <= count <= MAX_COUNT and count == int(count) for count in counts)
    if not is_count or any(later < earlier for earlier, later in pairwise(counts)):
        raise InvalidInput(where, f"counts {counts[:4]}", "whole numbers that do not fall from edge to edge")
    model = next((labels[name] for name in vocabulary.model_labels if labels.get(name)), "")[:_MAX_MODEL]
    edges_us = [round(edge * vocabulary.unit_us) for edge in edges[:-1]]
    usable = [place for place, edge_us in enumerate(edges_us) if 0 < edge_us <= LONGEST_EDGE_US]
    series = ",".join(f"{name}={text}" for name, text in sorted(labels.items()))
    return ServerHistogram(
        measure,
        model,
        series,
        tuple(edges_us[place] for place in usable),
        tuple(int(counts[place]) for place in usable),
        int(counts[-1]),
    )


def _edge(text: str) -> float:
    try:
        edge = float(text)
    except ValueError:
        edge = float("nan")
    if edge != edge or (abs(edge) > LONGEST_EDGE_US and edge != inf):
        raise InvalidInput("/metrics: le", text[:40], "a number")
    return edge


def _summed(by_name: Mapping[str, list[_Sample]], names: tuple[str, ...]) -> int | None:
    """The sum of all series of the first name that is there."""
    for name in names:
        if samples := by_name.get(name):
            values = [value for _, _, value in samples if 0 <= value <= MAX_COUNT]  # NaN is left out too
            return int(sum(values))
    return None
