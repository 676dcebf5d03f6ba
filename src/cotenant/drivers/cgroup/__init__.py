"""Cgroups of one machine, v1, v2 and both: layout, knobs, counters, and the groups themselves."""
