{{- define "bps-server.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "bps-server.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "bps-server.labels" -}}
{{ include "bps-server.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "bps-server.secret" -}}
{{- if and .Values.key.existingSecret .Values.key.value -}}
{{- fail "key.existingSecret and key.value are both set; set one of them" -}}
{{- else if .Values.key.value -}}
{{- include "bps-server.fullname" . }}-key
{{- else -}}
{{- required "set key.existingSecret, the name of a Secret with the key of the servers, or key.value" .Values.key.existingSecret -}}
{{- end -}}
{{- end -}}
