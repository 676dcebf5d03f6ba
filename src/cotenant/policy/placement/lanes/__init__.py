"""Lane kernels: row-local scores of sixteen shapes or sixteen nodes with one instruction.

Belongs here: memory layout, packing, the vector type, the kernels. Not here: the plain and scalar forms of the scores (placement/scores).
"""
