"""Machine-wide readings from /proc and /sys: counters, CPU topology, and run delay of tasks.

Belongs here: parsing of these files. Not here: cgroup files (drivers/cgroup).
"""
