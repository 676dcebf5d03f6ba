"""The rules about the cluster's shared objects: node life cycle and taint eviction, disruption budgets, persistent volumes.

Pure functions from views and the time to a `Plan`. Not here: event handling (`cluster_controllers.py`), and deletion of
what is no longer needed (`cleanup`).
"""
