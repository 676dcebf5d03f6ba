"""CPU burst: services that exceed their CPU limit for a while, and limits scaled to the speed of the machine.

Belongs here: the burst policy, its settings and its token bucket. Not here: CPU of best-effort work (nodeqos/cpu).
"""
