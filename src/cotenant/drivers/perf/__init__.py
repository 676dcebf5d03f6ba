"""Performance events of cgroups through perf_event_open, and their recording to files."""
