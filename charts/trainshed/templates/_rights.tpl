{{/* A role, and that the operator has it: in the whole cluster, or in each of the namespaces that are looked after.
     Takes {"top": …, "name": …, "rules": […]}. */}}
{{- define "trainshed.grant" -}}
{{- $namespaces := .top.Values.namespaces | default (list "") -}}
{{- range $namespace := $namespaces }}
{{- $kind := ternary "Role" "ClusterRole" (ne $namespace "") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ $.name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "trainshed.labels" $.top | nindent 4 }}
rules:
  {{- toYaml $.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ $.name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "trainshed.labels" $.top | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $.name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "trainshed.account" $.top }}
    namespace: {{ $.top.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* Rules on jobs, for those kinds only that are run. Takes {"top": …, "rules": […]}. */}}
{{- define "trainshed.ofKinds" -}}
{{- $plurals := (include "trainshed.kinds" .top | fromJson).plurals -}}
{{- $rules := list -}}
{{- range $rule := .rules -}}
{{- if eq (first $rule.apiGroups) "kubeflow.org" -}}
{{- $resources := list -}}
{{- range $rule.resources -}}
{{- if has (first (splitList "/" .)) $plurals -}}
{{- $resources = append $resources . -}}
{{- end -}}
{{- end -}}
{{- $rule = dict "apiGroups" $rule.apiGroups "resources" $resources "verbs" $rule.verbs -}}
{{- end -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}
