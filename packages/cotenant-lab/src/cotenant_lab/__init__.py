"""The lab: workloads, the simulated world, experiments, statistics and reports.

Belongs here: what defines, runs and compares simulated runs, and the bridge between the world and the scheduling
engine. Not here: scheduling decisions (policy and engine of cotenant), or a cluster (cotenant_local). Only
`experiments`, which run on a real machine, and `cli` see drivers.
"""
