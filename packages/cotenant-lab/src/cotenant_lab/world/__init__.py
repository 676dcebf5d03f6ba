"""The simulated world of a workload: its laws, events, failures and accounting. It is independent of scheduling.

Belongs here: contention, latency, progress, node QoS, and the measures of a run. Not here: workloads
(cotenant_lab/workloads), or the scheduling engine (engine), which only sees what the bridge passes on.
"""
