// What the console answers about a fleet (services/console/hosts).
export interface HostRow {
  guid: string;
  host: string;
  state: "ready" | "suspect" | "away";
  silentS: number;
  isDoubled: boolean;
  version: string;
  role: string;
  platform: string;
  region: string;
  namespace: string;
  tags: string[];
  cpu: number;
  memory: number;
  usedCpu: number | null;
  usedMemory: number | null;
  load: number | null;
  states: Record<string, number>;
  faults: number;
  node: string;
}

export interface Figures {
  cpu: number | null;
  system: number | null;
  held: number | null;
  memory: number | null;
  load1: number | null;
  load5: number | null;
  load15: number | null;
  received: number | null;
  sent: number | null;
  read: number | null;
  written: number | null;
  tasks: number | null;
  oomKills: number | null;
  restarts: number | null;
}

export interface ContainerRow {
  guid: string;
  agent: string;
  host: string;
  state: string;
  detail: string;
  image: string;
  group: string;
  appkey: string;
  cpuRequest: number;
  memoryRequest: number;
  usedCpu: number | null;
  usedMemory: number | null;
  ports: string[];
  limits: string[];
  figures?: Figures | null;
  hasFailed?: boolean;
}

export interface Region {
  name: string;
  hosts: number;
  ready: number;
  suspect: number;
  away: number;
  containers: number;
  /** How many regions this line stands for beside itself; 0: it is one. */
  others: number;
}

export interface GroupRow {
  name: string;
  goal: string;
  isDone: boolean;
  reason: string;
  containers: number;
  states: Record<string, number>;
}

export interface HostsPage {
  at: number;
  hosts: number;
  containers: number;
  states: Record<HostRow["state"], number>;
  regions: Region[];
  tags: [string, number][];
  count: number;
  rows: HostRow[];
  containersFound: number;
  found: ContainerRow[];
  groupsFound: number;
  groups: GroupRow[];
}

export interface HostPage extends HostRow {
  functions: { name: string; isOn: boolean; fault: string }[];
  refused: string[];
  exporters: string[];
  revision: number;
  startedS: number | null;
  figures: Figures | null;
  unmeasured: string;
  count: number;
  containers: ContainerRow[];
}

export interface ContainerPage extends ContainerRow {
  hostState: HostRow["state"];
  hasTerminal: boolean;
  node: string;
  unmeasured: string;
}

export interface GroupPage extends GroupRow {
  members: ContainerRow[];
  /** The legal changes from each state. */
  changes: Record<string, string[]>;
}

export interface LogPage {
  lines: { atMs: number; stream: string; text: string; cut: number; trace: string }[];
  missed: number;
  lost: number;
  isEnd: boolean;
}
