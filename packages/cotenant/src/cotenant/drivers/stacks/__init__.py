"""Stacks of running programs: taken by py-spy and perf, written as pprof; and a guid's or pod's programs on this host.

Not here: how often programs are asked, and what is shown of their stacks (services/profiling).
"""
