"""Deletion of what is no longer needed: dependents without owners, finished or orphaned pods, the content of terminating namespaces, old events.

Not here: what a workload deletes to reach its own replica count (`workloads`), and eviction from nodes (`cluster`).
"""
