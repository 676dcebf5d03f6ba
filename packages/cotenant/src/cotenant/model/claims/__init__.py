"""Claims of devices as Kubernetes has them (dynamic resource allocation): what drivers offer, what claims request, what
was allocated.

Belongs here: values. Not here: the choice of devices (policy/claims), their reading from API objects
(drivers/kube/kinds/claims).
"""
