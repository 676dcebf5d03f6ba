"""The agent of a host: it registers, sends heartbeats, is configured, and runs the functions that are switched on.

Belongs here: the agent's life. Not here: what it can do (services/fleet/functions).
"""
