"""The workloads of `cotenant up --workload`: the lab's workloads as ordinary manifests, submitted over time.

Belongs here: the translation into manifests and the submission at their arrival times.
Not here: the generators (`cotenant_lab/workloads`), and how pods behave once they run (`cotenant_local/nodes`).
"""
