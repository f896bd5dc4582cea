{{/* A role and its binding to the operator's ServiceAccount: cluster-wide, or one pair in each of the managed namespaces.
     Takes {"top": …, "name": …, "rules": […]}. */}}
{{- define "trainshed.roleAndBinding" -}}
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
    name: {{ include "trainshed.serviceAccountName" $.top }}
    namespace: {{ $.top.Release.Namespace }}
{{- end }}
{{- end -}}

{{/* The rules without the resources of disabled job kinds, and without rules that have no resource left. Takes {"top": …, "rules": […]}. */}}
{{- define "trainshed.rulesForEnabledKinds" -}}
{{- $plurals := (include "trainshed.enabledKinds" .top | fromJson).plurals -}}
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
{{- if $rule.resources -}}
{{- $rules = append $rules $rule -}}
{{- end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}
