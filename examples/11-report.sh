#!/bin/sh
# What an agent on a node would send, by hand: URL is the scheduler's or the extender's address, as `cotenant up` prints them.
#     sh examples/11-report.sh http://127.0.0.1:10261 node-0000
set -eu
url=$1 node=$2
curl -sS "$url/metrics/report" -H 'Content-Type: application/json' -w '%{http_code}\n' -d '{
  "node_name": "'"$node"'", "cpu_allocatable": 32, "cpu_used": 20.5, "memory_allocatable": 137438953472,
  "memory_used": 34359738368, "timestamp": '"$(date +%s)"', "tail_latency_p99": 18.0, "slo_violation_rate": 0.02}'
curl -sS "$url/metrics" | grep 'reports_total{outcome="taken"}'
