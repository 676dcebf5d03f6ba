"""Knobs behind leases, for the agent and the keeper alike: rules of what is granted, execution, and the client of a
keeper.

Belongs here: what is the same in a keeper of its own and inside the agent. Not here: the keeper's process and socket
(services/keeper), which knobs to write (engine/node) or the lease state machine (engine/leases).
"""
