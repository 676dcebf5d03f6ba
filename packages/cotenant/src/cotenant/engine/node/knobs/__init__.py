"""The knobs of one node as the agent's engine sees them: what is wanted, what is held, and what is read.

Belongs here: conflicts between desired values, the state of each knob between agent and keeper, and current values.
Not here: which values the policies want (policy/nodeqos), or the leases themselves (engine/leases).
"""
