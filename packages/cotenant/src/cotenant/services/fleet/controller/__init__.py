"""The controller: hears agents, answers operators, and brings groups of containers up or down.

Belongs here: the registry fed from the bus, stored groups and configurations, the carrying out of group instructions,
operators' rights. Not here: the state machines (engine/fleet) and agents.
"""
