"""The rules of the workload kinds: Deployment, ReplicaSet, StatefulSet, DaemonSet and Job, and what they share (pods from templates, revisions, rounding).

Pure functions from views and the time to a `Plan`. Not here: event handling (`workload_controllers.py`), views, and rules
about nodes, budgets or volumes (`cluster`).
"""
