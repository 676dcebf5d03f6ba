"""Every trace format that can be read, by name."""

from __future__ import annotations

from cotenant.model.errors import InvalidInput
from cotenant_lab.traces import (
    alibaba2017,
    alibaba2018,
    azure,
    distributions,
    dlrm2025,
    google2019,
    llm_requests,
    openb,
    pai2020,
    swim,
    tianchi,
)
from cotenant_lab.traces.schema import FormatInfo, TraceFormat, TraceTable

FORMATS: tuple[TraceFormat, ...] = (
    alibaba2018.FORMAT,
    distributions.FORMAT,
    alibaba2017.FORMAT,
    openb.FORMAT,
    tianchi.FORMAT,
    pai2020.FORMAT,
    dlrm2025.FORMAT,
    azure.FORMAT,
    swim.FORMAT,
    google2019.FORMAT,
    llm_requests.FORMAT,
)
GENERIC = "generic"
_GENERIC_INFO = FormatInfo(
    GENERIC,
    "any CSV or Parquet, through a mapping in YAML or TOML that assigns its columns",
    ("as the mapping says",),
    "yours",
    "yours",
)


def find_format(name: str) -> TraceFormat:
    """The format of that name. Raises `InvalidInput` listing the known ones."""
    for found in FORMATS:
        if found.name == name:
            return found
    raise InvalidInput("format", name, "one of " + ", ".join(info.name for info in formats()))


def find_table(format_: TraceFormat, name: str) -> TraceTable:
    """The format's table of that name. Raises `InvalidInput` listing the known ones."""
    for table in format_.tables:
        if table.name == name:
            return table
    raise InvalidInput(f"table of {format_.name}", name, "one of " + ", ".join(table.name for table in format_.tables))


def formats() -> tuple[FormatInfo, ...]:
    """Every format with its tables, provenance and licence, for a listing."""
    known = tuple(
        FormatInfo(f.name, f.meaning, tuple(t.name for t in f.tables), f.provenance, f.licence) for f in FORMATS
    )
    return (*known, _GENERIC_INFO)
