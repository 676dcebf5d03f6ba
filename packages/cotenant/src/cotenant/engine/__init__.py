"""What happens over time: state machines without I/O. Events in, instructions out.

Belongs here: the scheduling engine of lab, local cluster and `cotenant scheduler` (`cluster.py` and its folders), the
node agent's engine (node) and the keeper's (leases). Not here: single decisions (policy), I/O and clocks (drivers,
services), the simulated world (lab).
"""
