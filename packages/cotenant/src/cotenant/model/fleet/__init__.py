"""The fleet as values: who a host or a container is, what state it is in, what is asked and answered over the bus,
templates of groups, rights.

Belongs here: frozen values that agents, controllers and drivers exchange, and their checks. Not here: what happens over
time (engine/fleet), the bus and the container runtime (drivers), processes (services/fleet).
"""
