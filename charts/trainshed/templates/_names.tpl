{{/* What everything is called: v1's name if it is asked for, else the release's. */}}
{{- define "trainshed.name" -}}
{{- if .Values.compatibility.v1Names -}}
training-operator
{{- else if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "trainshed.account" -}}
{{- .Values.serviceAccount.name | default (include "trainshed.name" .) -}}
{{- end -}}

{{/* By which labels the operator's pods are found. They are part of a Deployment's selector, which cannot be changed. */}}
{{- define "trainshed.selector" -}}
{{- if .Values.compatibility.v1Names -}}
control-plane: kubeflow-training-operator
{{- else -}}
app.kubernetes.io/name: trainshed
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{- define "trainshed.labels" -}}
app.kubernetes.io/name: trainshed
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- if .Values.compatibility.v1Names }}
control-plane: kubeflow-training-operator
{{- end }}
{{- end -}}

{{- define "trainshed.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end -}}
{{- end -}}

{{/* The kinds that are run, as lists in words: {"kinds": ["TFJob"], "plurals": ["tfjobs"]}. */}}
{{- define "trainshed.kinds" -}}
{{- $kinds := list -}}
{{- $plurals := list -}}
{{- range list "TFJob" "PyTorchJob" "XGBoostJob" "PaddleJob" "JAXJob" "MPIJob" -}}
{{- if index $.Values.kinds (lower .) -}}
{{- $kinds = append $kinds . -}}
{{- $plurals = append $plurals (printf "%ss" (lower .)) -}}
{{- end -}}
{{- end -}}
{{- dict "kinds" $kinds "plurals" $plurals | toJson -}}
{{- end -}}

{{/* The pods of the operator in a policy's words. */}}
{{- define "trainshed.username" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "trainshed.account" . }}
{{- end -}}

{{/* Where a policy is in force: wherever jobs are looked after. */}}
{{- define "trainshed.within" -}}
{{- if .Values.namespaces -}}
matchResources:
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ .Values.namespaces | toJson }}
{{- end -}}
{{- end -}}
