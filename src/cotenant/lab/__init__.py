"""The lab: workloads, the simulated world, experiments, statistics and reports.

Belongs here: what defines, runs and compares simulated runs, and the bridge between the world and the scheduling engine. Not here: scheduling
decisions (policy, engine), or anything that needs a driver: the lab imports none.
"""
