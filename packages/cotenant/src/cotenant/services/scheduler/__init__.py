"""`cotenant scheduler`: a complete second scheduler of a Kubernetes cluster.

Belongs here: what is about scheduling: the engine's watches, its metrics, its options. Rooms: `actions` (writes), `pages` (debug API), `explain` (its client).
Not here: what any process against an API server needs (services/kube_process), and decisions (engine).
"""
