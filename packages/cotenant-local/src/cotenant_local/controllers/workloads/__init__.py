"""The rules of the workload kinds, as pure functions from views and the time to a `Plan`: Deployment, ReplicaSet,
StatefulSet, DaemonSet, Job.

Belongs here too: what they share (pods from templates, revisions, rounding, node selection). Not here: event handling
(`workload_controllers.py`), views, and rules about nodes, budgets or volumes (`cluster`).
"""
