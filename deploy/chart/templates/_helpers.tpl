{{- define "cotenant.labels" -}}
app.kubernetes.io/part-of: cotenant
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "cotenant.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Of the keeper that runs zones in virtual machines. */}}
{{- define "cotenant.zonesImage" -}}
{{- .Values.node.zoneMachines.image | default (printf "%s:%s-zones" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion)) -}}
{{- end -}}

{{- define "cotenant.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "cotenant.logs" -}}
- --log-level={{ .Values.logs.level }}
- --log-format={{ .Values.logs.format }}
{{- end }}

{{/* Pods of the control plane: the level `restricted` of Pod Security. */}}
{{- define "cotenant.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "cotenant.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Replicas on different hosts, and in different zones. Call with (dict "name" NAME). */}}
{{- define "cotenant.spread" -}}
{{- $name := .name -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- topologyKey: {{ . }}
  maxSkew: 1
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      app: {{ $name }}
{{- end }}
{{- end }}

{{- define "cotenant.scrape" -}}
{{- if .root.Values.monitoring.annotations }}
prometheus.io/scrape: "true"
prometheus.io/port: {{ .port | quote }}
{{- if or .https (and (not (hasKey . "https")) (include "cotenant.tls" .root)) }}
prometheus.io/scheme: https
{{- end }}
{{- end }}
{{- end }}

{{- define "cotenant.placement" -}}
priorityClassName: {{ .Values.priorityClassName }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Whether ports have TLS; "" where they do not. */}}
{{- define "cotenant.tls" -}}
{{- if and (eq .Values.certificates.source "manager") (not .Values.manager.enabled) -}}
{{- fail "certificates.source=manager needs manager.enabled; without it choose cert-manager, existing (your Secrets) or none (plain HTTP)" -}}
{{- end -}}
{{- if and (eq .Values.certificates.source "cert-manager") (not .Values.certificates.issuer.name) -}}
{{- fail "certificates.source=cert-manager needs certificates.issuer.name" -}}
{{- end -}}
{{- if ne .Values.certificates.source "none" }}yes{{ end -}}
{{- end }}

{{/* HTTP or HTTPS, of probes. */}}
{{- define "cotenant.scheme" -}}
{{- if include "cotenant.tls" . }}HTTPS{{ else }}HTTP{{ end -}}
{{- end }}

{{- define "cotenant.tlsArguments" -}}
{{- if include "cotenant.tls" . }}
- --tls-cert=/etc/cotenant/tls/tls.crt
- --tls-key=/etc/cotenant/tls/tls.key
{{- end }}
{{- end }}

{{- define "cotenant.tlsMount" -}}
{{- if include "cotenant.tls" . }}
- {name: tls, mountPath: /etc/cotenant/tls, readOnly: true}
{{- end }}
{{- end }}

{{/* The certificate of a Service, without the authority's key. Call with (dict "name" SERVICE "root" $). */}}
{{- define "cotenant.tlsVolume" -}}
{{- if include "cotenant.tls" .root }}
- name: tls
  secret:
    secretName: {{ .name }}-tls
    defaultMode: 288
    items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]
{{- end }}
{{- end }}

{{/* With cert-manager, the Certificate of a Service. Call with (dict "name" SERVICE "root" $). */}}
{{- define "cotenant.certificate" -}}
{{- if eq .root.Values.certificates.source "cert-manager" }}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cotenant.labels" .root | nindent 4 }}
spec:
  secretName: {{ .name }}-tls
  issuerRef:
    {{- toYaml .root.Values.certificates.issuer | nindent 4 }}
  privateKey: {algorithm: ECDSA, size: 256, rotationPolicy: Always}
  dnsNames:
    - {{ .name }}
    - {{ .name }}.{{ .root.Release.Namespace }}
    - {{ .name }}.{{ .root.Release.Namespace }}.svc
    - {{ .name }}.{{ .root.Release.Namespace }}.svc.cluster.local
    - localhost
  ipAddresses: [127.0.0.1]
{{- end }}
{{- end }}

{{/* The Services whose certificates the manager makes, besides its own: of all parts, so that one that is switched on later finds its Secret. */}}
{{- define "cotenant.certified" -}}
[cotenant-scheduler, cotenant-shadow, cotenant-rebalancer, cotenant-traces, cotenant-console, cotenant-credit]
{{- end }}

{{/* One disruption at a time. Call with (dict "name" NAME "root" $). */}}
{{- define "cotenant.budget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cotenant.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app: {{ .name }}
{{- end }}

{{/* A part's traces of its own decisions. Call with (dict "part" PART "root" $); the value PART.traces switches them on. */}}
{{- define "cotenant.ownTraces" -}}
{{- if (index .root.Values .part).traces }}
{{- if not .root.Values.traces.enabled }}{{ fail (printf "%s.traces needs traces.enabled, or --otlp-traces in %s.arguments" .part .part) }}{{ end -}}
true
{{- end }}
{{- end }}

{{- define "cotenant.ownTracesArguments" -}}
{{- if include "cotenant.ownTraces" . }}
- --otlp-traces={{ ternary "https" "http" (eq (include "cotenant.scheme" .root) "HTTPS") }}://cotenant-traces.{{ .root.Release.Namespace }}.svc:4318
- --otlp-traces-token-file=/etc/cotenant/traces-token/token
{{- if include "cotenant.tls" .root }}
- --otlp-traces-ca=/etc/cotenant/traces/ca.crt
{{- end }}
{{- end }}
{{- end }}

{{- define "cotenant.ownTracesMounts" -}}
{{- if include "cotenant.ownTraces" . }}
- {name: traces-token, mountPath: /etc/cotenant/traces-token, readOnly: true}
{{- if include "cotenant.tls" .root }}
- {name: traces, mountPath: /etc/cotenant/traces, readOnly: true}
{{- end }}
{{- end }}
{{- end }}

{{- define "cotenant.ownTracesVolumes" -}}
{{- if include "cotenant.ownTraces" . }}
- name: traces-token
  secret: {secretName: {{ .root.Values.traces.sendTokenSecret | default .root.Values.traces.tokenSecret }}, defaultMode: 288, items: [{key: token, path: token}]}
{{- if include "cotenant.tls" .root }}
- name: traces # what signs the trace process's certificate
  secret: {secretName: cotenant-traces-tls, defaultMode: 288, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end }}
{{- end }}

{{/* Egress to the trace process, as a list. */}}
{{- define "cotenant.ownTracesEgress" -}}
{{- if include "cotenant.ownTraces" . }}
- ports: [{port: 4318}]
  to: [{podSelector: {matchLabels: {app: cotenant-traces}}}]
{{- end }}
{{- end }}

{{/* Ingress from scrapers, and what `more` adds; egress to DNS, the API server, and what `egress` adds. Call with (dict "name" "port" "more" "egress" "root"). */}}
{{- define "cotenant.networkPolicy" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cotenant.labels" .root | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      app: {{ .name }}
  policyTypes: [Ingress, Egress]
  ingress:
    {{- if .root.Values.networkPolicy.monitoringNamespaces }}
    - ports: [{port: {{ .port }}}]
      from:
        {{- range .root.Values.networkPolicy.monitoringNamespaces }}
        - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . }}}}
        {{- end }}
    {{- else if not .more }}
    []
    {{- end }}
    {{- with .more }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  egress:
    - ports: [{port: 53, protocol: UDP}, {port: 53}]
    - ports:
        {{- range .root.Values.networkPolicy.apiServerPorts }}
        - port: {{ . }}
        {{- end }}
    {{- with .egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Blocks of addresses as peers. */}}
{{- define "cotenant.blocks" -}}
{{- range . }}
- ipBlock:
    cidr: {{ . | quote }}
{{- end }}
{{- end }}

{{/* The Role of a Lease and its binding. Call with (dict "name" "lease" "root"). */}}
{{- define "cotenant.lease" -}}
# The lease that replicas share. `create` cannot be limited to a name.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}-lease
  namespace: {{ .root.Release.Namespace }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .lease }}{{ range .more }}, {{ . }}{{ end }}]
    verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}-lease
  namespace: {{ .root.Release.Namespace }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}-lease
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "cotenant.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "cotenant.bound" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role | default .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | default .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* The ConfigMap with the authorities that agents trust, in their namespace; "" where they trust the system's. */}}
{{- define "cotenant.authorities" -}}
{{- if .Values.node.reports.caConfigMap -}}
{{ .Values.node.reports.caConfigMap }}
{{- else if eq .Values.certificates.source "manager" -}}
cotenant-ca
{{- end -}}
{{- end }}

{{/* Whether agents send anything with their own tokens: reports, or to the trace or the credit process. */}}
{{- define "cotenant.agentSends" -}}
{{- if or .Values.node.reports.urls (and .Values.traces.enabled .Values.traces.agents .Values.traces.objectives) (and .Values.credit.enabled .Values.credit.agents) -}}
yes
{{- end -}}
{{- end }}

{{/* The group above that of all best-effort pods: all of kubelet's. */}}
{{- define "cotenant.kubeletRoot" -}}
{{- $above := dir .Values.node.cgroupRoot -}}
{{- if eq $above "." }}{{ fail "node.protectServices needs node.cgroupRoot empty, or the group of best-effort pods below the kubelet's, such as kubepods/besteffort" }}{{ end -}}
{{- $above -}}
{{- end }}

{{/* The agent's configuration. What node.config says comes before what is here, key by key. */}}
{{/* Whether the webhook limits agents' evictions to their own node: matchConditions keep everybody else's away from it. */}}
{{- define "cotenant.judgesEvictions" -}}
{{- if and .Values.webhook.enabled .Values.node.enabled .Values.node.admissionPolicy (semverCompare ">=1.28-0" .Capabilities.KubeVersion.Version) }}yes{{ end -}}
{{- end }}

{{/* Whether pods' holdings are signed by this release's scheduler. */}}
{{- define "cotenant.seals" -}}
{{- if and .Values.scheduler.enabled .Values.scheduler.seal.enabled }}yes{{ end -}}
{{- end }}

{{/* The scheduler's certificate for processes in its namespace: what they read of bound pods' class, quota and tenant is checked by it. */}}
{{- define "cotenant.sealVolume" -}}
{{- if include "cotenant.seals" . -}}
- name: seal # not the key
  projected:
    defaultMode: 288
    sources:
      - secret: {name: cotenant-seal, items: [{key: tls.crt, path: tls.crt}], optional: true}
      - configMap: {name: cotenant-seal, items: [{key: tls.crt, path: bundle.crt}], optional: true}
{{- end }}
{{- end }}

{{- define "cotenant.agentConfig" -}}
{{- $node := .Values.node -}}
{{- $to := dict "token_file" "/var/run/secrets/cotenant/token" -}}
{{- if and (include "cotenant.authorities" .) (include "cotenant.tls" .) }}{{ $_ := set $to "ca_file" "/etc/cotenant-ca/ca.crt" }}{{ end -}}
{{- $scheme := include "cotenant.scheme" . | lower -}}
{{- /* by the pod's service account; the file of the prediction outlives the container, not the pod */ -}}
{{- $config := dict "mode" $node.mode "cgroup_root" "/host/cgroup" "keeper" "/run/cotenant/keeper.sock" "cluster" (dict "prediction_file" "/tmp/prediction.json") -}}
{{- if $node.zones }}{{ $_ := set $config.cluster "zones" true }}{{ end -}}
{{- if not $node.cgroupRoot -}}
{{- $_ := set $config "kubelet_groups" (ternary "all" "best-effort" $node.protectServices) -}}
{{- else -}}
{{- $_ := set $config "writable" (list (ternary (include "cotenant.kubeletRoot" .) $node.cgroupRoot $node.protectServices)) -}}
{{- $_ := set $config "best_effort_group" $node.cgroupRoot -}}
{{- end -}}
{{- if not $node.protectServices -}}
{{- range $policy := list "own_cpus" "burst" -}}
{{- if dig "policies" $policy false $node.config }}{{ fail (printf "node.config.policies.%s writes the groups of services: it needs node.protectServices" $policy) }}{{ end -}}
{{- end -}}
{{- $_ := set $config "policies" (dict "own_cpus" false "burst" false) -}}
{{- end -}}
{{- if include "cotenant.seals" . }}{{ $_ := set $config "seal_certificate" "/etc/cotenant-seal/tls.crt" }}{{ end -}}
{{- with $node.reports.urls }}{{ $_ := set $config "reports" (merge (dict "urls" .) $to) }}{{ end -}}
{{- if and .Values.traces.enabled .Values.traces.agents .Values.traces.objectives -}}
{{- $_ := set $config "traces" (merge (dict "url" (printf "%s://cotenant-traces.%s.svc:4318" $scheme .Release.Namespace)) $to) -}}
{{- end -}}
{{- if and .Values.credit.enabled .Values.credit.agents -}}
{{- $_ := set $config "state_dir" "/tmp" -}}{{- /* incidents that wait to be reported */ -}}
{{- $_ := set $config "credit" (merge (dict "url" (printf "%s://cotenant-credit.%s.svc:10265" $scheme .Release.Namespace)) $to) -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy $node.config)) -}}
{{- end }}

{{- define "cotenant.priorityClasses" -}}
koord-prod: {value: 9000, description: services}
koord-mid: {value: 7000, description: services that tolerate less}
koord-batch: {value: 5000, description: batch work on what services leave idle}
koord-free: {value: 3000, description: work without any claim}
{{- end }}

{{/* Whether an uninstallation has anything to withdraw. */}}
{{- define "cotenant.uninstalls" -}}
{{- $parts := list .Values.scheduler .Values.manager .Values.webhook .Values.node .Values.extender .Values.traces .Values.rebalancer .Values.console .Values.credit -}}
{{- range $parts }}{{ if and $.Values.uninstall.enabled .enabled }}yes{{ end }}{{ end -}}
{{- if and .Values.uninstall.enabled (include "cotenant.unusedClasses" .) }}yes{{ end -}}
{{- end }}

{{/* Whether it deletes the priority classes that no pod names. */}}
{{- define "cotenant.unusedClasses" -}}
{{- if and .Values.priorityClasses.create (eq .Values.uninstall.priorityClasses "unused") }}yes{{ end -}}
{{- end }}

{{/* The Leases that replicas made, of all parts: one that is off now may have been on. */}}
{{- define "cotenant.leases" -}}
[{{ include "cotenant.schedulerLease" . }}, cotenant-manager, cotenant-webhook, cotenant-rebalancer, cotenant-extended, cotenant-credit{{ range include "cotenant.shardLeases" . | fromJsonArray }}, {{ . }}{{ end }}]
{{- end }}

{{/* The Leases of several schedulers that all act, as JSON: their table, and one for each. */}}
{{- define "cotenant.shardLeases" -}}
{{- $lease := include "cotenant.schedulerLease" . | trim -}}
{{- $made := list -}}
{{- if gt (int .Values.scheduler.shards) 1 -}}
{{- $made = append $made (printf "%s-shards" $lease) -}}
{{- range $slot := until (int .Values.scheduler.shards) -}}{{- $made = append $made (printf "%s-shard-%d" $lease $slot) -}}{{- end -}}
{{- end -}}
{{- toJson $made -}}
{{- end }}

{{/* The names that pods' spec.schedulerName has, as JSON: those of the profiles where there is a configuration. */}}
{{- define "cotenant.schedulerNames" -}}
{{- $names := list -}}
{{- if .Values.scheduler.config -}}
{{- range .Values.scheduler.config.profiles -}}{{- $names = append $names (.schedulerName | default "default-scheduler") -}}{{- end -}}
{{- if not $names }}{{ $names = list "default-scheduler" }}{{ end -}}
{{- else -}}
{{- range .Values.scheduler.names -}}{{- $names = append $names (splitList "=" . | first) -}}{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end }}

{{/* Egress to the extenders of the scheduler's configuration. */}}
{{- define "cotenant.extendersEgress" -}}
{{- range .Values.scheduler.config.extenders }}
{{- $scheme := ternary "https" "http" (or (hasPrefix "https:" .urlPrefix) (.enableHTTPS | default false)) }}
{{- $host := (urlParse .urlPrefix).host }}
- ports: [{port: {{ regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "443" "80" (eq $scheme "https")) }}}]
{{- end }}
{{- end }}

{{/* Egress to the ports of the model servers that are read. */}}
{{- define "cotenant.modelServersEgress" -}}
{{- $ports := list }}
{{- range .Values.traces.modelServers.pods }}{{ $ports = append $ports (int .port) }}{{ end }}
{{- range .Values.traces.modelServers.servers }}
{{- $default := ternary 443 80 (hasPrefix "https:" .url) }}
{{- $ports = append $ports (regexFind ":[0-9]+$" (urlParse .url).host | trimPrefix ":" | default $default | int) }}
{{- end }}
{{- range uniq $ports }}
- ports: [{port: {{ . }}}]
{{- end }}
{{- end }}

{{- define "cotenant.schedulerLease" -}}
{{ first (include "cotenant.schedulerNames" . | fromJsonArray) }}-scheduler
{{- end }}

{{/* The Secrets that processes made. */}}
{{- define "cotenant.ownSecrets" -}}
- cotenant-webhook
{{- if eq .Values.certificates.source "manager" }}
- cotenant-manager-tls
{{- range include "cotenant.certified" . | fromYamlArray }}
- {{ . }}-tls
{{- end }}
{{- end }}
{{- end }}

{{/* Annotations of what exists only during an uninstallation. Call with (dict "hook" HOOK "weight" WEIGHT). */}}
{{- define "cotenant.uninstallHook" -}}
helm.sh/hook: {{ .hook }}
helm.sh/hook-weight: {{ .weight | default "0" | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* A Role of the uninstallation up to its rules, and its binding before it. Call with (dict "root" $ "hook" "namespace" "suffix"). */}}
{{- define "cotenant.uninstallRole" -}}
{{- $name := printf "cotenant-uninstall-%s" .suffix -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  annotations:
    {{- include "cotenant.uninstallHook" (dict "hook" .hook) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: cotenant-uninstall
    namespace: {{ .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ .namespace }}
  annotations:
    {{- include "cotenant.uninstallHook" (dict "hook" .hook) | nindent 4 }}
{{- end }}

{{/* A Job of the uninstallation up to its arguments. Call with (dict "root" $ "name" "hook" "weight"). */}}
{{- define "cotenant.uninstallJob" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "cotenant.labels" .root | nindent 4 }}
  annotations:
    {{- include "cotenant.uninstallHook" . | nindent 4 }}
spec:
  backoffLimit: 2
  activeDeadlineSeconds: 300
  template:
    metadata:
      labels:
        app: cotenant-uninstall
        {{- include "cotenant.labels" .root | nindent 8 }}
    spec:
      serviceAccountName: cotenant-uninstall
      restartPolicy: Never
      {{- include "cotenant.placement" .root | nindent 6 }}
      {{- include "cotenant.pullSecrets" .root | nindent 6 }}
      securityContext:
        {{- include "cotenant.podSecurity" .root | nindent 8 }}
      containers:
        - name: withdraw
          image: {{ include "cotenant.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          resources:
            requests: {cpu: 50m, memory: 64Mi}
            limits: {memory: 256Mi}
          securityContext:
            {{- include "cotenant.containerSecurity" .root | nindent 12 }}
{{- end }}
