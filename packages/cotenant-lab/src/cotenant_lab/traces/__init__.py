"""Public cluster traces: read, checked row by row, and converted once to Parquet.

formats()                                        what can be read
read_table("openb", "pods", path)                one file as a frame, and the report of what was dropped
read_mapped(mapping)                             the same for any CSV or Parquet with a mapping
import_trace("tianchi", source, destination)     to Parquet

Belongs here: formats as data, and their reading. Not here: workloads made from traces (cotenant_lab/workloads).
"""

from cotenant_lab.traces.catalogue import formats
from cotenant_lab.traces.convert import import_trace
from cotenant_lab.traces.mapping import read_mapped
from cotenant_lab.traces.read import read_table
from cotenant_lab.traces.schema import BadRows, FormatInfo, ImportReport, TableReport

__all__ = [
    "BadRows",
    "FormatInfo",
    "ImportReport",
    "TableReport",
    "formats",
    "import_trace",
    "read_mapped",
    "read_table",
]
