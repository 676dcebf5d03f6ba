"""What /proc and /sys tell of the machine: counters, processors, and how long tasks waited for one."""
