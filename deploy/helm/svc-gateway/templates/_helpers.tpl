{{- define "svc.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "svc.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "svc.labels" -}}
{{ include "svc.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "svc.secret" -}}
{{ .Values.secrets.existingSecret | default (include "svc.name" .) }}
{{- end }}

{{- define "svc.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "svc.name" .) }}
{{- end }}

{{/* What the settings say, or the gateway's own default. */}}
{{- define "svc.port" -}}{{ dig "gateway" "listen_port" 8080 .Values.settings | int }}{{- end }}
{{- define "svc.controlPort" -}}{{ dig "gateway" "control_api_port" 0 .Values.settings | int }}{{- end }}
{{- define "svc.managementPort" -}}
{{ if dig "management" "enabled" true .Values.settings }}{{ dig "management" "listen_port" 3000 .Values.settings | int }}{{ else }}0{{ end }}
{{- end }}
{{- define "svc.documents" -}}{{ dig "storage" "documents" "type" "sqlite" .Values.settings }}{{- end }}

{{/* The delay, then requests and streams, then ten seconds for the last writes. */}}
{{- define "svc.grace" -}}
{{- $delay := dig "gateway" "graceful_shutdown_delay_seconds" 0 .Values.settings | float64 }}
{{- $requests := dig "gateway" "graceful_shutdown_timeout_duration" 30 .Values.settings | float64 }}
{{- $streams := addf (dig "gateway" "streaming" "drain_timeout" 10 .Values.settings | float64) 5 }}
{{- addf $delay (maxf $requests $streams) 10 | ceil | int }}
{{- end }}

{{/* What Kubernetes would accept and the gateway could not keep. */}}
{{- define "svc.check" -}}
{{- $settings := .Values.settings }}
{{- $many := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}
{{- if and $many (ne (include "svc.documents" .) "postgres") }}
{{- fail "settings.storage.documents.type must be postgres with more than one replica: other stores belong to one process" }}
{{- end }}
{{- if eq (include "svc.port" .) "0" }}{{ fail "settings.gateway.listen_port must not be 0: the Service has to know it" }}{{ end }}
{{- if and (dig "management" "enabled" true $settings) (eq (include "svc.managementPort" .) "0") }}
{{- fail "settings.management.listen_port must not be 0: the Service has to know it" }}
{{- end }}
{{- range $path := list "gateway.secret" "gateway.security.private_certificate_encoding_secret" "management.admin_secret" "storage.documents.url" "storage.counters.url" }}
{{- $place := $settings }}
{{- range $part := splitList "." $path }}{{- if kindIs "map" $place }}{{- $place = get $place $part }}{{- end }}{{- end }}
{{- if and (kindIs "string" $place) (ne $place "") }}
{{- fail (printf "settings.%s is a secret: give it as secrets.values.SVC_%s" $path (upper $path | replace "." "__")) }}
{{- end }}
{{- end }}
{{- range $node := dig "storage" "counters" "nodes" list $settings }}
{{- if contains "@" $node }}{{ fail "settings.storage.counters.nodes hold a password: give them as secrets.values.SVC_STORAGE__COUNTERS__NODES" }}{{ end }}
{{- end }}
{{- range $member, $value := .Values.secrets.values }}
{{- if $.Values.secrets.existingSecret }}{{ fail "secrets.values and secrets.existingSecret exclude each other" }}{{ end }}
{{- end }}
{{- if and (not .Values.secrets.existingSecret) (not (get .Values.secrets.values "SVC_GATEWAY__SECRET")) }}
{{- fail "secrets.values.SVC_GATEWAY__SECRET (or secrets.existingSecret) is required" }}
{{- end }}
{{- end }}
