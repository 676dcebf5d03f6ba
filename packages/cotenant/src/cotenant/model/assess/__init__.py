"""A cluster as `cotenant assess` reads it: what stands in it now, and what was used over time.

Belongs here: values that the readers, the judgement and the report exchange. Not here: reading (drivers/kube,
drivers/prometheus), judgement (policy/assess), and what the scheduling engine knows of a cluster (model/cluster).
"""
