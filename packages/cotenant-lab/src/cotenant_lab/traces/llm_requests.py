"""Requests of language models as Azure publishes them: when, tokens of the prompt, tokens of the answer.

A file is one service. The files of 2023 are an hour of a conversation service and of a coding service each, those of
2024 a week. Times are UTC.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable

_TIME = r"^(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)(?:Z|\+00:00)?$"


def time_us(column: str) -> pl.Expr:
    """Microseconds since 1970 of a time as these files write it; null where it is none."""
    text = pl.col(column)
    plain = text.str.extract(_TIME, 1) + pl.lit(" ") + text.str.extract(_TIME, 2)
    return plain.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False).cast(pl.Int64)


REQUESTS = TraceTable(
    "requests",
    "requests of one service",
    (
        TraceColumn("TIMESTAMP", "text"),
        TraceColumn("ContextTokens", "integer", "tokens", minimum=1, maximum=10_000_000),
        TraceColumn("GeneratedTokens", "integer", "tokens", minimum=0, maximum=10_000_000),
    ),
    r"AzureLLMInferenceTrace_.*",
    rules=(RowRule("not a time", pl.col("TIMESTAMP").is_not_null() & time_us("TIMESTAMP").is_null(), "TIMESTAMP"),),
)

FORMAT = TraceFormat(
    "azure-llm",
    "requests of language models: arrival, tokens of prompt and answer",
    "Azure public dataset, LLM inference traces of 2023 (Patel et al., Splitwise, ISCA'24) and 2024",
    "CC-BY",
    (REQUESTS,),
)
