"""`cotenant scheduler`: a complete second scheduler of a Kubernetes cluster.

Belongs here: the process, its writes (`actions`), debug API (`pages`) and metrics. The engine and what feeds it are in
services/scheduling. Not here: what any process against an API server needs (services/kube_process), and decisions
(engine).
"""
