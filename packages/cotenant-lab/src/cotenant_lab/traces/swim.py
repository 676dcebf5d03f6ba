"""MapReduce jobs of Facebook, 2009 and 2010 (Chen et al., MASCOTS 2011): bytes read, shuffled and written, no requests
or durations.

Published as tab-separated lines without a header; comma-separated and with a header is read too.
"""

from __future__ import annotations

import polars as pl

from cotenant_lab.traces.schema import RowRule, TraceColumn, TraceFormat, TraceTable

BYTES = 1e18

JOBS = TraceTable(
    "jobs",
    "jobs: submission and bytes of each phase",
    (
        TraceColumn("job", "text"),
        TraceColumn("submit_s", "integer", "s", minimum=0, maximum=1e9),
        TraceColumn("gap_s", "integer", "s", minimum=0, maximum=1e9),
        TraceColumn("map_input_bytes", "integer", "bytes", minimum=0, maximum=BYTES),
        TraceColumn("shuffle_bytes", "integer", "bytes", minimum=0, maximum=BYTES),
        TraceColumn("reduce_output_bytes", "integer", "bytes", minimum=0, maximum=BYTES),
    ),
    r"FB-20.*",
    key=("job",),
    ascending="submit_s",
    rules=(RowRule("gap longer than the time so far", pl.col("gap_s") > pl.col("submit_s"), "gap_s"),),
)

FORMAT = TraceFormat(
    "swim",
    "Facebook MapReduce jobs 2009 and 2010, 24 one-hour samples each",
    "SWIMProjectUCB/SWIM; Chen et al., MASCOTS 2011",
    "BSD, Regents of the University of California",
    (JOBS,),
)
