// The answer to /api/autonomy.
import type { LendingPool } from "../answers";

export interface Allowed {
  action: string;
  rung: string;
  may_begin: boolean;
  is_frozen: boolean;
  why: string;
}

export interface AutonomyObject {
  name: string;
  namespaces: string[];
  actions: string[];
  ceiling: string;
  windows: string[];
  blackouts: [from: number, until: number, why: string][];
  freeze: { why: string; by: string } | null;
  wrong: string[];
}

export interface Sizing {
  sizing: string;
  workload: string;
  mode: string;
  state: string;
  message: string;
  suggested: string;
  why: string[];
  applied: string;
  /** Ids that can be approved and taken back now; empty = none. */
  approve: string;
  undo: string;
  receipts: { id: string; at: string; outcome: string; change: string; why: string; allowed_by: string; pods: number }[];
  wrong: string[];
}

export interface MoveReceipt {
  move: string;
  pod: string;
  state: string;
  before: string;
  after: string;
  why: string;
  allowed_by: string;
  result: string;
  at: number;
  waits: boolean;
}

export interface RecoveryAct {
  at: number;
  node: string;
  victim: string;
  culprit: string;
  rung: string;
  helped: boolean | null;
  is_over: boolean;
}

export interface AutonomyPage {
  may_change: boolean;
  is_frozen: boolean;
  allowed: Allowed[];
  objects: AutonomyObject[];
  earned: { action: string; where: string; rung: string; hits: number; trials: number; low: number; why: string }[];
  sizes: Sizing[];
  moves: MoveReceipt[];
  pools: LendingPool[];
  recovery: RecoveryAct[];
  recovery_problem: string;
}
