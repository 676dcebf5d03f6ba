"""`cotenant nri`: the runtime hook of one node, which gives containers their first values.

Belongs here: the process, what it knows of the node, its metrics. Not here: the interface (drivers/nri), the decision
(engine/node/first_values.py).
"""
