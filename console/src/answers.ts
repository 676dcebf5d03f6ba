// The answers of the console, the scheduler and the trace process, as far as the page reads them.

export interface PodRow {
  pod: string;
  node: string;
  tenant: string;
  kind: number;
  phase: string;
  priority: number;
  cpu: number;
  lentCpu: number;
  memory: number;
  usedCpu: number | null;
  usedMemory: number | null;
  created: number;
  owner: string;
  gang: string;
  scheduler: string;
  terminating: boolean;
  objectiveMs: number | null;
  latencyMs: number | null;
  /** Whether it misses its objective. */
  late: boolean;
  /** Of one pod's answer only: whether the console opens terminals into it. */
  hasTerminal?: boolean;
}

export interface PodList {
  count: number;
  /** Nodes that report missed objectives and not whose. */
  unnamed: number;
  pods: PodRow[];
}

export interface Candidate {
  node: string;
  score: number;
  parts: { name: string; value: number }[];
}

export interface Waiting {
  because: string;
  nodes: number;
  held: boolean;
  rejections: { filter: string; reason: string; nodes: number }[];
  nearest: string[];
  passing: number;
  notes: string[];
  helps: { what: string; words: string; nodes: number }[];
  preemption: string;
  retry: { standing: string; words: string; at_s: number | null } | null;
}

export interface PodAnswer {
  pod: string;
  at_s: number;
  state: string;
  headline: string;
  priority: number;
  requests: [string, string][];
  node: string;
  promised: string;
  supposed: string;
  waiting: Waiting | null;
  record: { at_s: number; nodes: number; node: string | null; policy: string; candidates: Candidate[]; gang: string; together: number } | null;
  candidates: Candidate[];
  concerns: { kind: string; name: string; holds: boolean; words: string; lines: string[] }[];
  preemptions: { at_s: number; rule: string; victims: string[]; preemptor: string; words: string }[];
  story: [number, string][];
}

export interface NodePage {
  node: string;
  ready: boolean;
  cordoned: boolean;
  labels: [string, string][];
  taints: string[];
  columns: number[];
  pods: PodRow[];
}

export interface LentPage {
  state: string;
  reason: string;
  strategy: string;
  metricAgeSeconds: number | null;
  amounts: {
    resource: string;
    onNode: number | null;
    written: number | null;
    policy: string;
    terms: { name: string; amount: number }[];
    holders: { pod: string; amount: number }[];
  }[];
  configError: string;
  ignored: string[];
}

export interface SchedulerNode {
  amounts: { resource: string; allocatable: string; requested: string; free: string }[];
  pods: { pod: string; cpus: string; devices: string[] }[];
  promised: string[];
}

export interface CpuTopology {
  cpuTopology: { numCPUs: number; numNodes: number; cpuDetails: Record<string, { cpuID: number; coreID: number; nodeID: number; socketID: number }> };
  reserved: Record<string, string>;
}

export interface FreeCpus {
  availableCPUs: string;
  allocated: { pod: string; cpus: string }[];
}

export interface Quota {
  name: string;
  object: string;
  isUsed: boolean;
  problems: string[];
  parent: string;
  children: string[];
  lends: boolean;
  total: [string, number][];
  used: [string, number][];
  maximum: [string, number][];
  shares: { terms: (string | number | null)[]; reason: { text: string } }[];
  seated: number;
  waiting: number;
  keptFor: string;
}

export interface OperationRow {
  service: string;
  operation: string;
  kind: string;
  requests: number;
  perSecond: number;
  errors: number;
  p50Ms: number | null;
  p95Ms: number | null;
  p99Ms: number | null;
}

export interface EdgeRow {
  client: string;
  server: string;
  connection: string;
  calls: number;
  failed: number;
}

export interface TraceRow {
  traceId: string;
  service: string;
  operation: string;
  startNs: number;
  durationMs: number;
  spans: number;
  failed: boolean;
}

export interface TracePage {
  traceId: string;
  durationMs: number;
  spans: { parent: number; service: string; operation: string; startMs: number; durationMs: number; selfMs: number; failed: boolean; pod: string }[];
}

export interface DeviceSummary {
  devices: {
    type: string;
    minor: number;
    isHealthy: boolean;
    numa: number | null;
    total: Record<string, string>;
    used: Record<string, string>;
    holders: { pod: string }[];
  }[];
  wrong: string[];
}

export interface Objective {
  objective: string;
  service: string;
  operation: string;
  indicator: string;
  belowMs: number | null;
  targetPercent: number;
  window: string;
  state: string;
  ratio: number | null;
  budgetLeft: number | null;
  requests: number;
  burn: Record<string, number | null>;
  alerts: { severity: string; label: string; firing: boolean }[];
  lastAction: { time: string; node: string; pod: string; action: string; text: string } | null;
  conditions: { type: string; status: string; reason: string; message: string }[];
  replicas: { pod: string; node: string; requests: number; bad: number; burn: number | null; p99Ms: number | null }[];
}

export interface CriticalPage {
  service: string;
  requests: number;
  meanMs: number;
  path: { service: string; operation: string; share: number; meanMs: number }[];
}

export interface MoveEffect {
  resource: string;
  node_before: number | null;
  node_after: number | null;
  target_before: number | null;
  target_after: number | null;
}

export interface Move {
  name: string;
  pod: string;
  replacement: string;
  node: string;
  to: string;
  phase: "Pending" | "Running" | "Succeeded" | "Failed" | "Aborted";
  paused: boolean;
  trigger: string;
  why: string;
  outcome: string;
  created: number;
  ended: number | null;
  created_by: string;
  mode: string;
  resource: string;
  effects: MoveEffect[];
  helped: "" | "True" | "False" | "Unknown";
  figures: string;
  alternatives: string[];
  wrong: string[];
  steps: { type: string; status: string; reason: string; message: string; at: number | null }[];
}

export interface MoveList {
  count: number;
  counts: { all: number; open: number; succeeded: number; failed: number; helped: number; not_helped: number };
  moves: Move[];
}

export interface ZoneOnNode {
  node: string;
  state: string;
  setting: string;
  groups: number;
  last_change: string;
  message: string;
  outdated: boolean;
  restarts: number;
  machine: string;
  pods: { name: string; kind: string; ready: boolean; running: boolean; restarts: number; ports: string[]; exit: number | null; message: string }[];
  conditions: { type: string; status: string; reason: string; message: string; since: string }[];
}

export interface Zone {
  name: string;
  backend: string;
  start: string;
  modes: string[];
  applications: string[];
  rules: { applies_to: string; kind: string; weight: number; slice_us: number; late_ms: number }[];
  only_on: string[];
  active: number;
  nodes: ZoneOnNode[];
  wrong: string;
}

/** A figure in thousandths with its interval, or the reason why there is none. */
export interface Reading {
  value?: number;
  low?: number;
  high?: number;
  samples?: number;
  source?: "measured" | "learned" | "declared";
  cannotTell?: string;
}

export interface ProfileView {
  profile: string;
  kind: string;
  workload: string;
  axes: { name: string; tendency: Reading; sensitivity: Reading }[];
  overall: { sensitivity: Reading; pressure: Reading; tolerates: Reading };
  updated: string;
  measured: string;
  measured_on: string;
  wrong: string[];
}

export interface CreditEntry {
  number: number;
  key: string;
  at_ms: number;
  cause: string;
  payer: string;
  payee: string;
  milli: number;
  evidence: Record<string, string | number>;
  explanation: string;
}

export interface CreditTenant {
  tenant: string;
  balance_milli: number;
  standing: number;
  entries?: CreditEntry[];
}

export interface KnobRow {
  group: string;
  knob: string;
  pod: string;
  value: string;
  before: string;
  stands: string | null;
  state: string;
  policy: string;
  rule: string;
  why: string;
  lifts: string;
  taken: number | null;
  until: number | null;
  detail: string;
  lost: [string, string][];
}

export interface NoAgent {
  problem: string;
}

export interface AgentPage {
  node: string;
  mode: string;
  keeper_up: boolean | null;
  keeper_said: string;
  leases_error: string;
  host: { cpu_stall_ppm: number | null; memory_stall_ppm: number | null; memory_full_stall_ppm: number | null; io_stall_ppm: number | null; steal_ppm: number | null };
  best_effort: { cpu_m: number | null; throttled_ppm: number | null; run_delay_ppm: number | null; cpu_stall_ppm: number | null; memory_bytes: number | null } | null;
  idle_gpus: { allocated: number; idle: number; idle_memory_bytes: number; idle_holders: string[] };
  knobs: KnobRow[];
  pods: {
    pod: string;
    qos: string;
    use: { cpu_m: number | null; throttled_ppm: number | null; run_delay_ppm: number | null; cpu_stall_ppm: number | null; memory_bytes: number | null };
    latency_ms: number | null;
    objective_ms: number | null;
  }[];
  gaps: string[];
}

export interface Incident {
  node: string;
  number: number;
  stage: string;
  victim: string;
  objective_ms: number | null;
  signal: string;
  level: number;
  threshold: number;
  burn: number | null;
  cause: string;
  culprit: string;
  confidence: number;
  candidates: [string, number][];
  proofs: { rung: string; culprit: string; at: number; before: number; during: number | null; after: number | null; helped: boolean | null; workload: string }[];
  opened: number;
  recovered: number | null;
  ended: number | null;
  workload: string;
  owner: string;
}

export interface TimelineEvent {
  at: number;
  kind: string;
  node: string;
  victim: string;
  culprit: string;
  text: string;
  move: string;
  workload: string;
}

export interface TimelinePage {
  about: string;
  at: number;
  replicas: [string, string][];
  incidents: Incident[];
  events: TimelineEvent[];
  latency: { pod: string; objective_ms: number | null; points: [number, number][] }[];
  problems: string[];
}

export interface Experiment {
  name: string;
  workload: string;
  policies: string[];
  loads: number[];
  seeds: number;
  failed: number;
  written: number;
}

export interface MetricView {
  name: string;
  title: string;
  short: string;
  unit: string;
  better: "higher" | "lower" | "neither";
  ranks: boolean;
  definition: string;
}

/** A row of results.json: figures by name, each with its interval as NAME_ci. */
export interface LabRow {
  policy: string;
  role: string;
  load: number;
  seeds: number;
  [figure: string]: number | string | null | object;
}

export interface ExperimentPage {
  name: string;
  written: number;
  metrics: MetricView[];
  results: {
    workload: string;
    seeds: number;
    seed_list?: number[];
    loads: number[];
    ours: string;
    rows: LabRow[];
    paired: { policy: string; against: string; metric: string; load: number | null; difference: number | null; difference_ci: number | null; seeds: number }[];
    notes?: string[];
  };
}

export interface Curve {
  name: string;
  x_label: string;
  y_label: string;
  x: (number | null)[];
  y: (number | null)[];
}

/** Machines of a run over time: `cells` is base64 of bytes by frame, machine and column. */
export interface RunMachines {
  hours: number[];
  machine: number[];
  machines: number;
  columns: string[];
  cells: string;
  violated: number[];
  used_cpu: number[];
}

export interface GangPage {
  key: string;
  spec: { minAvailable: number; mode: string } | null;
  problems: string[];
  phase: string;
  members: { pod: string; uid: string; state: string; node: string; told: string }[];
  needs: string[];
  satisfied: boolean;
  placed: number;
  holding: number;
  waiting: number;
  why: string;
  standsBackFor: string;
}

export interface Reservation {
  name: string;
  uid: string;
  phase: string;
  allocateOnce: boolean;
  reserved: Record<string, string>;
  left: Record<string, string>;
  owners: string[];
  waiting: string[];
  endsS: number | null;
  why: string;
}

/** A half minute of a service's requests. `bands`: position on a logarithmic scale, and how many requests took that long. */
export interface LatencySlot {
  agoS: number;
  lengthS: number;
  requests: number;
  errors: number;
  p50Ms: number | null;
  p95Ms: number | null;
  p99Ms: number | null;
  bands: [number, number][];
}

/** Band k is from `lowMs` x `factor` ** k to the next. */
export interface LatencyPage {
  service: string;
  lowMs: number;
  factor: number;
  slots: LatencySlot[];
}

/** A pool of nodes that lends by leave. */
export interface LendingPool {
  pool: string;
  mode: string;
  rung: string;
  state: string;
  message: string;
  suggestion: { id: string; rules: string; nodes: number; cpu_m: number; memory_mib: number } | null;
  earned: string;
  hits: number;
  trials: number;
  low: number;
  days: LendingDay[];
  wrong: string[];
  /** The id that can be approved now; empty = none. */
  approve: string;
  may_undo: boolean;
}

interface LendingDay {
  day: string;
  outcome: string;
  why: string;
  rung: string;
  allowed_by: string;
  is_lent: boolean;
  cpu_m: number;
  memory_bytes: number;
}
