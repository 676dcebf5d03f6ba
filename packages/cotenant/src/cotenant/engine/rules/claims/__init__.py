"""Claims of devices: which nodes can satisfy those of a pod, which claims hold which devices, what is written before a
bind.

Belongs here: the accounts of all nodes over time. Not here: how devices are chosen (policy/claims).
"""
