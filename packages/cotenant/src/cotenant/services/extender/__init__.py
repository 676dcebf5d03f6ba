"""`cotenant extender`: our filter and scores for an unchanged kube-scheduler.

Belongs here: the scheduler extender protocol, the mirror of nodes and residents that it is answered from, and the
profiles over it. Not here: the reports' endpoint (services/reporting), HTTP (drivers/http), and placement rules
(policy).
"""
