// What the console answers about applications and virtual machines (services/console/applications).
export interface ListedRelease {
  namespace: string;
  name: string;
  source: string;
  revision: number;
  state: string;
}

export interface ReleaseList {
  releases: ListedRelease[];
  mayChange: boolean;
}

export interface Release extends ListedRelease {
  message: string;
  objects: { kind: string; namespace: string; name: string; ready: number; wanted: number; is_stopped: boolean; why: string[] }[];
  pods: { guid: string; namespace: string; name: string; node: string; phase: string; qos: string; of: string }[];
  objectives: { name: string; service: string; target: string; state: string }[];
  quotas: { kind: string; name: string; used: Record<string, string>; maximum: Record<string, string> }[];
  cost: { cpu_m: number; memory_mib: number; per_hour: number | null; currency: string };
  class_name: string;
  without_class: string[];
}

export interface ReleasePage {
  release: Release;
  mayChange: boolean;
}

export interface Machine {
  namespace: string;
  name: string;
  state: string;
  size: { vcpus: number; memory_mib: number; flavor: string };
  node: string;
  why: string;
  class_name: string;
  pod: string;
  pending: string;
}

export interface MachineList {
  machines: Machine[];
  mayChange: boolean;
  lacks: string;
}

export interface Change {
  what: string;
  is_done: boolean;
  failure: string;
  lines: string[];
}
