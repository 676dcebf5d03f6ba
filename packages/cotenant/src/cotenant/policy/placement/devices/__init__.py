"""Allocation of devices of one node: topology, partitions, virtual functions, strategies, the ledger.

Belongs here: pure functions over one node's devices. Not here: parsing of annotations (model/devices), accounts of all
nodes (engine/rules/devices).
"""
