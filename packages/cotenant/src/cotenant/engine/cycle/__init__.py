"""The scheduling cycle: the queue and its order, placing, preemption, nominations, and the record of each decision.

Belongs here: what happens to every pod between its arrival and its bind. Not here: gangs, quotas, reservations (engine/plugins),
or requirements on a node beyond sums (engine/rules).
"""
