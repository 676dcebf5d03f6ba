"""The rules that delete objects no longer needed: dependents without owners, orphaned or finished pods, terminating
namespaces, old events.

Not here: pods that a workload deletes to reach its replica count (`workloads`), and eviction from nodes (`cluster`).
"""
