"""The keeper: the process that may write knobs, holds their leases, restores every knob, and runs the node's zones.

Belongs here: its start, socket, rights and memory pressure. Not here: rules and execution of leases (services/knobs),
or zones (services/zones).
"""
