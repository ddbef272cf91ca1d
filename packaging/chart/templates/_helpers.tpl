{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{- define "caisson.name" -}}
{{- $name := ternary .Release.Name (printf "%s-caisson" .Release.Name) (contains "caisson" .Release.Name) -}}
{{- $name | trunc 45 | trimSuffix "-" -}}
{{- end }}

{{- define "caisson.image" -}}
{{ .root.Values.image.repository }}:{{ (index .root.Values .part).tag | default .root.Values.image.tag | default .root.Chart.AppVersion }}
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

{{/* The Secret of a part whose certificate an upgrade keeps, or nothing. */}}
{{- define "caisson.kept" -}}
{{- $name := include "caisson.name" .root }}
{{- $has := lookup "v1" "Secret" .root.Release.Namespace (printf "%s-%s" $name .part) }}
{{- if and $has (lookup "v1" "Secret" .root.Release.Namespace (printf "%s-authority" $name)) }}
{{- if eq (dig "metadata" "annotations" "caisson/generation" "" $has) (toString .root.Values.certificates.generation) }}{{ toYaml $has }}{{ end }}
{{- end }}
{{- end }}

{{/* The day on which the certificate ends. */}}
{{- define "caisson.until" -}}
{{- if .has }}{{ dig "metadata" "annotations" "caisson/until" "" .has }}
{{- else }}{{ dateInZone "2006-01-02" (now | dateModify (printf "+%dh" (mul 24 .root.Values.certificates.days))) "UTC" }}{{ end }}
{{- end }}

{{- define "caisson.access" -}}
{{ .Values.access.existingSecret | default (printf "%s-access" (include "caisson.name" .)) }}
{{- end }}

{{/* The authority of the object store, for routers and workers. */}}
{{- define "caisson.objectsCa" -}}
{{- if and .Values.objects.endpoint .Values.objects.caConfigMap }}
- {name: SANDBOX_OBJECTS_CA, value: /etc/caisson/objects-ca/ca.crt}
{{- end }}
{{- end }}
{{- define "caisson.objectsMount" -}}
{{- if and .Values.objects.endpoint .Values.objects.caConfigMap -}}
- {name: objects-ca, mountPath: /etc/caisson/objects-ca, readOnly: true}
{{- end }}
{{- end }}
{{- define "caisson.objectsVolume" -}}
{{- if and .Values.objects.endpoint .Values.objects.caConfigMap -}}
- name: objects-ca
  configMap: {name: {{ .Values.objects.caConfigMap }}}
{{- end }}
{{- end }}

{{/* The environment of a pod. The API server refuses a name that is there twice, so an operator's setting replaces that of the chart. */}}
{{- define "caisson.env" -}}
{{- $settings := .settings | default dict }}
{{- range $name, $from := dict "SANDBOX_API_KEY" "access.existingSecret" "SANDBOX_DATABASE" "database.existingSecret" }}
{{- if hasKey $settings $name }}{{ fail (printf "settings: %s is a secret: put it into a Secret, and name that in %s" $name $from) }}{{ end }}
{{- end }}
{{- $all := list }}
{{- range fromYamlArray .own }}
{{- if not (hasKey $settings .name) }}{{ $all = append $all . }}{{ end }}
{{- end }}
{{- range $name, $value := $settings }}
{{- $text := toString $value }}
{{- if kindIs "float64" $value }}
{{- if eq $value (floor $value) }}{{ $text = printf "%.0f" $value }}{{ end }}{{/* else 4294967296 of a file is 4.294967296e+09 */}}
{{- end }}
{{- $all = append $all (dict "name" $name "value" $text) }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- define "caisson.hosts" -}}
{{- $name := printf "%s-router" (include "caisson.name" .) -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
{{- if .Values.ingress.enabled }}{{- $hosts = append $hosts .Values.ingress.host }}{{- end }}
{{- if .Values.httpRoute.enabled }}{{- $hosts = concat $hosts .Values.httpRoute.hostnames }}{{- end }}
{{- concat $hosts .Values.router.hosts | uniq | join "," -}}
{{- end }}
