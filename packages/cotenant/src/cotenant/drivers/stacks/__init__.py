"""Stacks of running programs: taken by py-spy, written as pprof; and the processes of a guid or pod on this host.

Not here: how often programs are asked, and what is shown of their stacks (services/profiling).
"""
