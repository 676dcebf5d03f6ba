"""Writes to the API server that carry out what the engine decided: binds, claims, evictions, reservations, statuses.

Belongs here: one module for each kind of instruction, and how its outcome is reported to the engine.
Not here: rate-limited writers and events in general (services/kube_process), and the decisions themselves (engine).
"""
