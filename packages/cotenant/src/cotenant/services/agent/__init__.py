"""The node's agent: the process around the node's engine (engine/node).

Rooms: discovery, loop (ticks and requests to the keeper), actions (keeper, classes, evictions), reports (to the
cluster). Beside them the process itself, its start, the components it is given, its HTTP pages and metrics. Not here:
decisions (engine/node, policy) or file formats (drivers).
"""
