"""Which devices satisfy claims on a node: pools of slices, the search, consumed capacity, the stored result.

Belongs here: pure functions over values of model/claims, in the order in which Kubernetes' allocator tries devices.
Not here: expressions of selectors, which are evaluated by what is passed in; accounts of all nodes
(engine/rules/claims).
"""
