"""Discovery of the node's pods: the union of several sources, and the cluster's declarations of this node's pods.

Belongs here: combining sources. Not here: the sources' own formats (drivers/kubelet, drivers/cri, drivers/kube).
"""
