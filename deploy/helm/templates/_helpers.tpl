{{/* A list of the root and a component: the labels that select its pods. */}}
{{- define "streameval.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: streameval
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "streameval.labels" -}}
{{- $root := index . 0 -}}
{{ include "streameval.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "streameval.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What every pod has: the image's user, no account, no variables of other services. */}}
{{- define "streameval.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsUser: 10001
  runAsNonRoot: true
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- with .Values.pod }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "streameval.container" -}}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: { drop: [ALL] }
{{- end }}

{{/* The variables of a client: a list of the root and the name of its token. */}}
{{- define "streameval.client.env" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
- { name: STREAMEVAL_SERVER, value: "{{ $root.Release.Name }}:50051" }
{{- if $values.tokens }}
- { name: STREAMEVAL_TOKEN_FILE, value: /etc/streameval/clients/{{ index . 1 }}.token }
{{- end }}
{{- if $values.tls }}
- { name: STREAMEVAL_ROOT_CERTIFICATES, value: /etc/streameval/tls/ca.crt }
{{- end }}
{{- if $values.mutualTls }}
- { name: STREAMEVAL_CLIENT_CERTIFICATE, value: /etc/streameval/clients/client.crt }
- { name: STREAMEVAL_CLIENT_KEY, value: /etc/streameval/clients/client.key }
{{- end }}
{{- end }}

{{- define "streameval.client.mounts" -}}
{{- if or .Values.tokens .Values.mutualTls -}}
- { name: clients, mountPath: /etc/streameval/clients, readOnly: true }
{{ end }}
{{- if .Values.tls -}}
- { name: tls, mountPath: /etc/streameval/tls, readOnly: true }
{{ end -}}
- { name: tmp, mountPath: /tmp }
{{- end }}

{{/* Its volumes: of the secrets, only the files that it reads. */}}
{{- define "streameval.client.volumes" -}}
{{- $root := index . 0 -}}
{{- $values := $root.Values -}}
{{- if or $values.tokens $values.mutualTls -}}
- name: clients
  secret:
    secretName: {{ $root.Release.Name }}-clients
    items:
      {{- if $values.tokens }}
      - { key: {{ index . 1 }}.token, path: {{ index . 1 }}.token }
      {{- end }}
      {{- if $values.mutualTls }}
      - { key: client.crt, path: client.crt }
      - { key: client.key, path: client.key }
      {{- end }}
{{ end }}
{{- if $values.tls -}}
- name: tls
  secret:
    secretName: {{ $root.Release.Name }}-tls
    items: [{ key: ca.crt, path: ca.crt }]
{{ end -}}
- { name: tmp, emptyDir: {} }
{{- end }}

{{/* A probe has no client certificate; the command has, which names localhost as the server's. */}}
{{- define "streameval.ready" -}}
{{- if .Values.mutualTls -}}
exec:
  command:
    - streameval
    - health
    - --server=localhost:50051
    - --root-certificates=/etc/streameval/tls/ca.crt
    - --client-certificate=/etc/streameval/tls/tls.crt
    - --client-key=/etc/streameval/tls/tls.key
timeoutSeconds: 5
{{- else -}}
httpGet: { path: /readyz, port: http, scheme: {{ ternary "HTTPS" "HTTP" .Values.tls }} }
{{- end }}
{{- end }}
