"""Control Zones as values: rows of the policy table, late dispatches, modes, and what the kernel reports of a
scheduler.

Belongs here: values that drivers, policies and the zone engine exchange. Not here: decisions (policy/zone), state over
time (engine/zones).
"""
