"""Credit of tenants: journal entries, what earns and what costs, decay and bounds, and what a balance may influence.

Belongs here: pure arithmetic over facts of one period. Not here: state over time (engine/credit), storage
(drivers/journal).
"""
