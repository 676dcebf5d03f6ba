"""Performance events of cgroups through perf_event_open, and their recording to files.

Belongs here: opening, reading and scaling of counters. Not here: conclusions from them (policy/interference).
"""
