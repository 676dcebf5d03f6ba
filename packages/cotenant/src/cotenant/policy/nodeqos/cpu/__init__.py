"""CPU of best-effort work and of pods with own CPUs: the allowance, how it is set on the node, and which CPUs are used.

Belongs here: allowance, suppression by cpuset or quota, division among groups, CPU choice. Not here: burst, the guard,
eviction for lack of CPU.
"""
