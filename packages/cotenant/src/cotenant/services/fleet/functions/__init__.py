"""What an agent can do, each part switched on and off by its configuration while it runs.

Belongs here: one module for each function, which implements `contract.Function`, and its line in `made.py`. A function
brings verbs of its own, adds to the heartbeat, and says its fault. Not here: the agent that runs them
(services/fleet/agent).
"""
