"""Pods: defaults and admission at create, immutable fields, QoS class, binding and eviction.

Not here: the shape of a pod (`schema/kinds`), what a kubelet does with it (`cotenant_local/nodes`), and which node it
should get.
"""
