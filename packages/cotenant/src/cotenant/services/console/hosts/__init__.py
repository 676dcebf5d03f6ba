"""The view "Fleet": hosts that run the fleet's agents, their containers and groups, and logs.

Belongs here: what the console wants to know of a fleet (`contract.py`), what it knows now, and its answers. Not here:
how a fleet is asked (services/fleet/viewing.py), and Kubernetes' nodes (services/console/fleet.py).
"""
