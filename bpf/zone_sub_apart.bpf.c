// SPDX-License-Identifier: GPL-2.0-only
/* Zone scheduler "apart" as a sub-scheduler of one cgroup. */
#define ZONE_SUB
#include "zone_apart.bpf.c"
