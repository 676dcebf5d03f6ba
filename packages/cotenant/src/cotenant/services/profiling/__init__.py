"""Workload profiles at the command line: measuring one on this machine, reading those of a cluster, and drawing them.

Belongs here: the ladder of loads beside a replica with its signals and its cleaning up, the client of WorkloadProfiles,
radar charts. Not here: what is learned while pods run (engine/workloads), the kind (drivers/kube/kinds/custom), tables
(cli).
"""
