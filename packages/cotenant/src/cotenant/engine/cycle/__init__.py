"""The scheduling cycle: the queue and its order, rounds, judgement and what follows from it, placing, and the record of
each decision.

Belongs here: what happens to every pod between its arrival and its bind; evictions for it are in `eviction`. Not here:
gangs, quotas, reservations (engine/plugins), or requirements on a node beyond sums (engine/rules).
"""
