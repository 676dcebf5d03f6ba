"""A stand-in for the kubelet and its runtime on a real cgroup tree: the kubelet's steps, the drivers that write,
the record of every write.
"""
