"""The processes: they connect drivers to engines.

Belongs here: one folder for each process or command, and what several of them share (kube_process, reporting, running.py).
Not here: decisions (policy, engine), I/O itself (drivers), and the local API server with its controllers (local).
"""
