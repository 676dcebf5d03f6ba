"""The node agent's engine: measure, judge, hold, let go.

Belongs here: what turns samples into wishes for knobs and evictions over time. Not here: node policies (policy/nodeqos) or leases of knobs (engine/leases).
"""
