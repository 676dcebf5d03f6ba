"""Pods: the structs of what is decoded, and the parts of reading them (requests, affinity, annotations, gangs,
reservations).

Belongs here: what turns a Pod of the API into a value of the model, for a scheduler (`reader.py`) and for a node's
agent (`on_node.py`). Not here: fields that other kinds share (`kinds/parts.py`, `selectors.py`, `taints.py`).
"""
