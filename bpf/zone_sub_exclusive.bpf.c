// SPDX-License-Identifier: GPL-2.0-only
/* Zone scheduler "exclusive" as a sub-scheduler of one cgroup. */
#define ZONE_SUB
#include "zone_exclusive.bpf.c"
