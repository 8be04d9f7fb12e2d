{{- define "dwell.name" -}}
{{- printf "%s-dwell" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "dwell.selector" -}}
app.kubernetes.io/name: dwell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dwell.labels" -}}
{{ include "dwell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
