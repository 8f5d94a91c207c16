{{- define "spindle.labels" -}}
app.kubernetes.io/name: spindle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* Drivers have the first two labels too, and so a Service or a Deployment needs all three. */}}
{{- define "spindle.selector" -}}
app.kubernetes.io/name: spindle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: service
{{- end }}

{{- define "spindle.historySelector" -}}
app.kubernetes.io/name: spindle
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: history
{{- end }}

{{/* Where the pods of a Deployment run, and as whom. */}}
{{- define "spindle.placement" -}}
{{- with .Values.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* A change of the Secret is a rollout at the next `helm upgrade`: only then is it read. */}}
{{- define "spindle.podAnnotations" -}}
{{- $annotations := merge (dict) .Values.annotations }}
{{- with lookup "v1" "Secret" .Release.Namespace .Values.secret }}
{{- $annotations = set $annotations "spindle/secret" (sha256sum (toJson .data)) }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "spindle.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "spindle.mounts" -}}
- {name: data, mountPath: /data}
- {name: data, mountPath: /tmp, subPath: tmp}
{{- end }}

{{- define "spindle.serviceMounts" -}}
{{ include "spindle.mounts" . }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What pods with users' pipelines reach: names, the service, and all but the forbidden networks. */}}
{{- define "spindle.egress" -}}
- to:
    - namespaceSelector: {}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
- to:
    - namespaceSelector:
        matchLabels: {kubernetes.io/metadata.name: {{ .Release.Namespace }}}
      podSelector:
        matchLabels:
          {{- include "spindle.selector" . | nindent 10 }}
  ports:
    - {protocol: TCP, port: 8080}
{{- $families := dict "0.0.0.0/0" list "::/0" list }}
{{- range .Values.networkPolicies.forbidden }}
{{- $family := ternary "::/0" "0.0.0.0/0" (contains ":" .) }}
{{- $_ := set $families $family (append (get $families $family) .) }}
{{- end }}
- to:
    {{- range $network, $forbidden := $families }}
    - ipBlock:
        cidr: {{ $network | quote }}
        {{- with $forbidden }}
        except: {{ toJson . }}
        {{- end }}
    {{- end }}
{{- with .Values.networkPolicies.egress }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spindle.environment" -}}
{{- $values := .Values }}
{{- $selector := list }}
{{- range $key, $value := $values.drivers.nodeSelector }}
{{- $selector = append $selector (printf "%s=%s" $key $value) }}
{{- end }}
{{- $settings := dict
  "SPINDLE_DATA" "/data"
  "SPINDLE_HOST" "0.0.0.0"
  "SPINDLE_PORT" "8080"
  "SPINDLE_PUBLIC_URL" (printf "http://%s.%s.svc:%v" .Release.Name .Release.Namespace $values.service.port)
  "SPINDLE_STORAGE" $values.storage.address
  "SPINDLE_S3_ENDPOINT" $values.storage.endpoint
  "SPINDLE_S3_REGION" $values.storage.region
  "SPINDLE_COMPUTE" "kubernetes"
  "SPINDLE_KUBERNETES_INSTANCE" .Release.Name
  "SPINDLE_KUBERNETES_NAMESPACE" $values.drivers.namespace
  "SPINDLE_KUBERNETES_IMAGE" $values.image
  "SPINDLE_KUBERNETES_PULL_SECRETS" (join "," $values.pullSecrets)
  "SPINDLE_KUBERNETES_SERVICE_ACCOUNT" (printf "%s-driver" .Release.Name)
  "SPINDLE_KUBERNETES_DRIVER_CPU" $values.drivers.cpu
  "SPINDLE_KUBERNETES_DRIVER_MEMORY" $values.drivers.memory
  "SPINDLE_KUBERNETES_PENDING_MINUTES" (toString $values.drivers.pendingMinutes)
  "SPINDLE_KUBERNETES_DRIVERS" (toString $values.drivers.atOnce)
  "SPINDLE_KUBERNETES_NODE_SELECTOR" (join "," $selector)
  "SPINDLE_KUBERNETES_TOLERATIONS" (join "," $values.drivers.tolerations)
  "SPINDLE_KUBERNETES_CRON_NAMESPACES" (join "," $values.cron.namespaces)
  "SPINDLE_KUBERNETES_CRON_IMAGES" (join "," $values.cron.images)
  "SPINDLE_KUBERNETES_CRON_SECRETS" (join "," $values.cron.secrets)
}}
{{- if $values.history.eventLogs }}
{{- $settings = merge $settings (dict "SPINDLE_SPARK_EVENT_LOG" "1") }}
{{- end }}
{{- if $values.history.server }}
{{- $history := printf "http://%s-history.%s.svc:18080" .Release.Name .Release.Namespace }}
{{- $settings = merge $settings (dict "SPINDLE_SPARK_HISTORY_URL" $history) }}
{{- end }}
{{- if $values.executors.enabled }}
{{- $settings = merge $settings (dict
  "SPINDLE_SPARK_MASTER" "k8s://https://kubernetes.default.svc:443"
  "SPINDLE_SPARK_EXECUTOR_MEMORY" $values.executors.memory
  "SPINDLE_KUBERNETES_EXECUTORS" (toString $values.executors.count)
  "SPINDLE_KUBERNETES_DYNAMIC_ALLOCATION" (ternary "1" "" $values.executors.dynamicAllocation)
  "SPINDLE_KUBERNETES_EXECUTOR_CORES" (toString $values.executors.cores)
  "SPINDLE_KUBERNETES_EXECUTOR_CPU" $values.executors.cpu
) }}
{{- end }}
{{- range $name, $value := merge $settings $values.settings }}
{{- if $value }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
- {name: HOME, value: /data}
{{- range list "SPINDLE_DATABASE_URL" "SPINDLE_SECRET_KEY" "SPINDLE_ADMIN_KEY" }}
- name: {{ . }}
  valueFrom:
    secretKeyRef: {name: {{ $values.secret }}, key: {{ . }}}
{{- end }}
{{- with $values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}
