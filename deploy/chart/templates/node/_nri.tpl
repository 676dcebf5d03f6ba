{{/* The runtime hook beside agent and keeper (node.nri.enabled): its container, and the volume that only it needs. */}}
{{- define "cotenant.nriContainer" -}}
- name: nri
  image: {{ include "cotenant.image" . }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
    - nri
    - --config=/etc/cotenant/agent.yaml # the agent's: mode and batch resources are the same, runtime_hook is its own
    {{- include "cotenant.logs" . | nindent 4 }}
  env:
    - name: NODE_NAME
      valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
    {{- with include "cotenant.gpuEnvironment" . }}
    {{- . | nindent 4 }}
    {{- end }}
  resources:
    {{- toYaml .Values.node.nri.resources | nindent 4 }}
  securityContext:
    runAsUser: 0 # the runtime's socket is root's
    runAsGroup: 65532
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
      add: [SYS_NICE] # a container's creation waits for its answer: the least real-time priority
  volumeMounts:
    - {name: nri, mountPath: /var/run/nri}
    - {name: cgroup, mountPath: /host/cgroup, readOnly: true}
    - {name: run, mountPath: /run/cotenant} # its state file, for `cotenant node status`
    - {name: config, mountPath: /etc/cotenant, readOnly: true}
    {{- with include "cotenant.sharesPipe" . }}
    - {name: mps-shares, mountPath: {{ . }}} # of the MPS daemon that holds shares of GPUs: it is asked whether it runs
    {{- end }}
    {{- with include "cotenant.sharesMemory" . }}
    - {name: mps-memory, mountPath: {{ . }}, readOnly: true} # containers get it as /dev/shm, where it is there
    {{- end }}
    {{- if include "cotenant.seals" . }}
    - {name: seal, mountPath: /etc/cotenant-seal, readOnly: true}
    {{- end }}
{{- end }}

{{- define "cotenant.nriVolume" -}}
- name: nri
  hostPath: {path: /var/run/nri, type: DirectoryOrCreate} # a runtime without the interface: no socket appears, and nothing else fails
{{- with include "cotenant.sharesPipe" . }}
- name: mps-shares
  hostPath: {path: {{ . }}, type: DirectoryOrCreate} # a node without the daemon has an empty folder, and holds no shares
{{- end }}
{{- with include "cotenant.sharesMemory" . }}
- name: mps-memory
  hostPath: {path: {{ . }}, type: DirectoryOrCreate}
{{- end }}
{{- end }}

{{/* The pipe directory of config.runtime_hook, the same path on the host and here. */}}
{{- define "cotenant.sharesPipe" -}}
{{- (.Values.node.config.runtime_hook | default dict).mps_pipe | default "" -}}
{{- end }}

{{- define "cotenant.sharesMemory" -}}
{{- (.Values.node.config.runtime_hook | default dict).mps_shared_memory | default "" -}}
{{- end }}

{{/* What NVIDIA's runtime brings into a container (node.gpu.runtimeClass): library and nvidia-smi, MPS's program. */}}
{{- define "cotenant.gpuEnvironment" -}}
{{- if .Values.node.gpu.runtimeClass -}}
- {name: NVIDIA_VISIBLE_DEVICES, value: all}
- {name: NVIDIA_DRIVER_CAPABILITIES, value: "utility,compute"}
{{- end -}}
{{- end }}
