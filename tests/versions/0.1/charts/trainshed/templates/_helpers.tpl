{{/* The name of all objects: v1's name with compatibility.v1Names, else fullnameOverride or the release's name. */}}
{{- define "trainshed.fullname" -}}
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

{{/* The name of the operator's ServiceAccount. */}}
{{- define "trainshed.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (include "trainshed.fullname" .) -}}
{{- end -}}

{{/* The selector labels of the operator's pods. A Deployment's selector is immutable, so these must not change. */}}
{{- define "trainshed.selectorLabels" -}}
{{- if .Values.compatibility.v1Names -}}
control-plane: kubeflow-training-operator
{{- else -}}
app.kubernetes.io/name: trainshed
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- end -}}

{{/* The labels of all objects. */}}
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

{{/* The operator's image: the digest takes precedence over the tag. */}}
{{- define "trainshed.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ $tag }}{{ end -}}
{{- end -}}

{{/* The enabled job kinds as JSON: {"kinds": ["TFJob"], "plurals": ["tfjobs"]}. */}}
{{- define "trainshed.enabledKinds" -}}
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

{{/* The user name of the operator in admission requests. */}}
{{- define "trainshed.operatorUsername" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "trainshed.serviceAccountName" . }}
{{- end -}}

{{/* Limit an admission policy binding to the namespaces that the operator manages. */}}
{{- define "trainshed.policyMatchResources" -}}
{{- if .Values.namespaces -}}
matchResources:
  namespaceSelector:
    matchExpressions:
      - key: kubernetes.io/metadata.name
        operator: In
        values: {{ .Values.namespaces | toJson }}
{{- end -}}
{{- end -}}
