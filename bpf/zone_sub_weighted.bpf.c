// SPDX-License-Identifier: GPL-2.0-only
/* Zone scheduler "weighted" as a sub-scheduler of one cgroup. */
#define ZONE_SUB
#include "zone_weighted.bpf.c"
