"""Machine-wide readings from /proc and /sys: counters, pressure, networks, CPU topology.

Belongs here: parsing of these files. Not here: cgroup files, and what is summed over a group's tasks (drivers/cgroup).
"""
