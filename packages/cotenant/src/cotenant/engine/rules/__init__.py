"""Node rules: requirements of a pod on a node that sums of requests cannot express. One folder each: CPUs, devices,
load.

Belongs here: the rows that pass with reasons, the choice on the selected row, and the exact release of what was chosen.
Not here: rules that do not depend on a node (engine/plugins).
"""
