"""The keeper: the process that may write knobs, holds their leases, and restores every knob.

Belongs here: its socket and protocol, the rules of what it grants, the execution of lease instructions. Not here: which knobs to write
(engine/node) or the lease state machine (engine/leases).
"""
