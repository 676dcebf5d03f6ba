#!/bin/sh
# A cluster for the tests of a controller or operator: started, used, removed. With --bare there is only the API server, so nothing but your
# code touches the objects; without it Deployments become pods, which simulated nodes run.
set -eu
dir=$(mktemp -d)
cotenant up --dir "$dir" --ephemeral --nodes 3 >"$dir/up.log" &
up=$!
trap 'kill "$up"; wait "$up" || true; rm -rf "$dir"' EXIT
until grep -q 'ready in' "$dir/up.log"; do
  kill -0 "$up" || { cat "$dir/up.log"; exit 1; }
  sleep 0.1
done
export KUBECONFIG="$dir/kubeconfig"

# Replace the lines below by your tests:
kubectl create deployment hello --image=example/hello:1 --dry-run=client -o yaml \
  | sed 's/^    spec:$/    spec:\n      schedulerName: cotenant/' | kubectl apply -f -
kubectl rollout status deployment/hello --timeout=30s
