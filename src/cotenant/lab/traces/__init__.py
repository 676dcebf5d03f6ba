"""Public cluster traces: read, checked row by row, and converted once to Parquet. Callers use `read_table` and `formats`."""

from cotenant.lab.traces.catalogue import formats
from cotenant.lab.traces.read import read_table

__all__ = ["formats", "read_table"]
