"""The node agent's engine: measure, decide, hold knobs, release them. A state machine without I/O.

Belongs here: turning samples into requests for knobs (`knobs`) and evictions over time. Not here: node policies
(policy/nodeqos), leases of knobs (engine/leases), or reading and writing the node (drivers, services/agent).
"""
