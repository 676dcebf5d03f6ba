"""The parts that every long-running process against a Kubernetes API server is built from.

Belongs here: client set-up, leader election, watches, status and event writers, health, and the order of start and
stop. Not here: what one process decides or serves (services/scheduler, services/extender, services/agent).
"""
