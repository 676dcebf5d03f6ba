"""The rules about shared objects of the cluster: node life cycle and taint eviction, disruption budgets, persistent
volumes.

Pure functions from views and the time to a `Plan`. Not here: event handling (`cluster_controllers.py`), and deletion of
objects no longer needed (`cleanup`).
"""
