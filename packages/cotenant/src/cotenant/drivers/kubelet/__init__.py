"""The kubelet's traces on its node: names of cgroups, state files, and folders of pods.

Belongs here: discovery of pods from these. Not here: cgroup files (drivers/cgroup) or the API server (drivers/kube).
"""
