"""The container runtime of one node, through Kubernetes' runtime interface (CRI).

Belongs here: the client and the discovery of pods from it. Not here: names of cgroups (drivers/kubelet), the API server
(drivers/kube).
"""
