{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "caisson.name" -}}
{{- $name := ternary .Release.Name (printf "%s-caisson" .Release.Name) (contains "caisson" .Release.Name) -}}
{{- $name | trunc 45 | trimSuffix "-" -}}
{{- end }}

{{- define "caisson.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* By which Services and policies find the pods of a part; they never change. */}}
{{- define "caisson.selector" -}}
app.kubernetes.io/name: caisson
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "caisson.labels" -}}
{{ include "caisson.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "caisson.secret" -}}
{{- $c := .root.Values.certificates -}}
{{ ternary $c.existingRouterSecret $c.existingWorkerSecret (eq .part "router") | default (printf "%s-%s" (include "caisson.name" .root) .part) }}
{{- end }}

{{- define "caisson.access" -}}
{{ .Values.access.existingSecret | default (printf "%s-access" (include "caisson.name" .)) }}
{{- end }}

{{/* The settings of an operator come last, so that they win. */}}
{{- define "caisson.settings" -}}
{{- range $name, $value := .settings }}
- name: {{ $name }}
  value: {{ $value | toString | quote }}
{{- end }}
{{- end }}

{{- define "caisson.hosts" -}}
{{- $name := printf "%s-router" (include "caisson.name" .) -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled }}{{- $hosts = append $hosts .Values.ingress.host }}{{- end }}
{{- if .Values.httpRoute.enabled }}{{- $hosts = concat $hosts .Values.httpRoute.hostnames }}{{- end }}
{{- concat $hosts .Values.router.hosts | uniq | join "," -}}
{{- end }}
