"""The scheduling cycle: the queue, whose turn it is, placing, preemption, nominations, and the record of each decision.

Belongs here: what happens to a pod between its arrival and its bind, for every pod alike. Not here: gangs, quotas, reservations (engine/plugins),
or what a node must have beyond sums (engine/rules).
"""
