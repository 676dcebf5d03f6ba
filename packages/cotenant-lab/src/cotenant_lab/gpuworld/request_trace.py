"""A recorded stream of requests, replayed at another rate: its gaps and lengths in their order.

What is kept: how requests cluster, from milliseconds to as long as the recording is, which lengths follow which, and
prompt and answer of one request together. What is not: the rate, which is that of the simulated day. A gap of the
recording is measured in its own mean gap; each seed begins at another request, and begins again at the end.
Several files are services recorded at one time; what is replayed is all of them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cotenant.model.arrays import Float, Int
from cotenant.model.errors import InvalidInput

_LEAST = 100  # requests; with fewer, a day would be the same few again and again


@dataclass(frozen=True, slots=True, eq=False)
class RequestTrace:
    """[N] requests. `gaps`: before each, in mean gaps."""

    gaps: Float
    prompt: Int
    output: Int

    def from_request(self, first: int, due: float) -> tuple[Float, Int]:
        """Requests until `due` of them are due at the mean rate, from one on: when each is due, and its row."""
        count = len(self.gaps)
        rounds = int(due / count) + 2  # the gaps of one round add up to the count
        rows = (first + np.arange(rounds * count)) % count
        at = np.cumsum(self.gaps[rows])
        kept = int(np.searchsorted(at, due))
        return at[:kept], rows[:kept]


def request_trace(arrive_us: Int, prompt: Int, output: Int) -> RequestTrace:
    """Of requests in any order. Raises `InvalidInput` where there are too few, or all at one time."""
    if len(arrive_us) < _LEAST:
        raise InvalidInput("--requests", f"{len(arrive_us)} requests", f"at least {_LEAST}")
    order = np.argsort(arrive_us, kind="stable")
    at = arrive_us[order]
    if at[-1] == at[0]:
        raise InvalidInput("--requests", "all requests at one time", "requests over some time")
    mean = (at[-1] - at[0]) / (len(at) - 1)
    gaps = np.concatenate([[1.0], np.diff(at) / mean])  # before the first: where the recording begins again
    return RequestTrace(gaps, np.maximum(prompt[order], 1), np.maximum(output[order], 1))


def read_requests(paths: Sequence[Path]) -> RequestTrace:
    """Files of the format azure-llm, CSV or Parquet, each counted from its first request. Raises `InvalidInput`."""
    import polars as pl  # imported here: a comparison without a trace does without it

    from cotenant_lab.traces import read_table
    from cotenant_lab.traces.llm_requests import time_us

    frames = []
    for path in paths:
        rows, _ = read_table("azure-llm", "requests", path)
        at = time_us("TIMESTAMP")
        frames.append(rows.select((at - at.min()).alias("at"), "ContextTokens", "GeneratedTokens"))
    found = pl.concat(frames)
    return request_trace(*(found[name].to_numpy().astype(np.int64) for name in found.columns))
