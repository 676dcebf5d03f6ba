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
[cotenant-scheduler, cotenant-rebalancer, cotenant-traces, cotenant-console, cotenant-credit]
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
  secret: {secretName: {{ .root.Values.traces.tokenSecret }}, defaultMode: 288, items: [{key: token, path: token}]}
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
    resourceNames: [{{ .lease }}]
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
