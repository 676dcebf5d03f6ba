"""What would be different on someone's cluster: the work of `cotenant assess`, which reads once and writes nothing.

Belongs here: making a copy of a cluster, feeding the scheduling engine and the policies with it, and joining their
answers to a report. Not here: the copy's file (`drivers/kube/snapshot`), the figures (`policy/assess`), printing
(`cli`), the page's drawing (`console/src/report`).
"""
