// SPDX-License-Identifier: GPL-2.0-only
/* Zone scheduler "throughput" as a sub-scheduler of one cgroup. */
#define ZONE_SUB
#include "zone_throughput.bpf.c"
