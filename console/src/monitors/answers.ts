// The answer to /api/zone/NAME. Null is what is not known.
type Figure = number | null;

export interface Front {
  runnable: Figure;
  wait_ms: Figure;
  softirq_cpus: Figure;
  steal_cpus: Figure;
  cpu_pressure: Figure;
  memory_pressure: Figure;
  io_pressure: Figure;
}

export interface Back {
  vcpu_cpus: Figure;
  stolen: Figure;
  device_cpus: Figure;
  share_cpus: Figure;
  vhost_cpus: Figure;
  exits_per_s: Figure;
  kicks_per_s: Figure;
  notifications_per_s: Figure;
  kicks_per_notification: Figure;
}

export interface Figures {
  zone: string;
  state: string;
  setting: string;
  late_per_s: Figure;
  burn: Figure;
  stall: Figure;
  batch_cpus: Figure;
  machine: { memory_mib: number; vcpus: number; cpu_milli: number; disk_mib: number; disk_bytes: number } | null;
  front: Front | null;
  back: Back | null;
}

export interface NodeMonitors {
  node: string;
  problem: string;
  figures: Figures | null;
  machines: { memory_mib: number; max_memory_mib: number; vcpus: number; max_vcpus: number; disk_mib: number; max_disk_mib: number } | null;
}

export interface MonitorsPage {
  nodes: NodeMonitors[];
  left_out: number;
}
