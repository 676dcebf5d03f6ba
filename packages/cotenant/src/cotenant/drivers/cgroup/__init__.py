"""The cgroups of one machine, v1, v2 and hybrid: layout, knobs, counters, and the groups themselves.

Belongs here: reading and writing cgroup files, and figures of a group's tasks. Not here: decisions (policy, engine), or
the names that kubelet gives to groups (drivers/kubelet).
"""
