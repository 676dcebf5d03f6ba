"""Workloads of declared kinds: the files that declare them (`kinds/`), their objects, and which workload a pod belongs
to.

Not here: what a gang or a limit does with that (engine), and the kinds of Kubernetes itself (`../workloads.py`).
"""
