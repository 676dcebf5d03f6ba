#!/bin/sh
# A simulated node falls silent: its Lease runs out (40 s), it becomes NotReady and is tainted, and pods whose toleration has run out are
# evicted and replaced on other nodes. Needs example 1. Takes about a minute and a half.
set -eu
node=$(kubectl get pods -l app=web -o jsonpath='{.items[0].spec.nodeName}')
echo "$node falls silent"
kubectl annotate node "$node" cotenant.io/fail=true --overwrite
kubectl wait --for=condition=Ready=Unknown "node/$node" --timeout=120s
kubectl get node "$node" -o custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key
# A silent node cannot confirm that its pods ended, so they stay Terminating until it is back; their replacements are running already.
until [ "$(kubectl get pods -l app=web -o jsonpath='{range .items[*]}{.spec.nodeName}{" "}{.metadata.deletionTimestamp}{"\n"}{end}' \
  | grep -c "^$node .")" -ge 1 ]; do sleep 2; done
kubectl rollout status deployment/web --timeout=60s
kubectl get pods -l app=web -o wide
echo "$node comes back"
kubectl annotate node "$node" cotenant.io/fail-
kubectl wait --for=condition=Ready "node/$node" --timeout=60s
