// SPDX-License-Identifier: GPL-2.0-only
/* Zone scheduler "latency" as a sub-scheduler of one cgroup. */
#define ZONE_SUB
#include "zone_latency.bpf.c"
