"""The eBPF run-queue probe (bpf/runqueue.bpf.c) from user space: loading, maps, ring buffer, attribution to groups.

Belongs here: what needs libbpf and the kernel's maps. Not here: decisions from its readings (policy/interference).
"""
