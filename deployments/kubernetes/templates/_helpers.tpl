{{- define "rounds.name" -}}
{{- if contains "rounds" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-rounds" (.Release.Name | trunc 40 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "rounds.selector" -}}
app.kubernetes.io/name: rounds
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "rounds.labels" -}}
{{ include "rounds.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "rounds.image" -}}
{{- with .Values.image }}{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}{{ end }}
{{- end }}

{{- define "rounds.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "rounds.name" .) }}
{{- end }}

{{- /* What the standard "restricted" of Kubernetes' Pod Security demands, and a root that is read-only. */}}
{{- define "rounds.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "rounds.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "rounds.spread" -}}
{{- range .topologies }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "rounds.selector" $.root | nindent 6 }}
      app.kubernetes.io/component: {{ $.role }}
{{- end }}
{{- end }}

{{- /* The Deployment of a role, and its budget. Takes root, role and replicas: 0 if something else scales it. */}}
{{- define "rounds.role" -}}
{{- $root := .root }}
{{- $values := $root.Values }}
{{- $role := .role }}
{{- $its := index $values $role }}
{{- $name := include "rounds.name" $root }}
{{- $files := merge (dict) $its.files $values.files }}
{{- $settings := merge (dict) $its.settings $values.settings }}
{{- $sleep := ternary 5 0 (eq $role "api") }}
{{- if $values.redis.enabled }}
{{- $files = merge (dict "ROUNDS_REDIS_PASSWORD_FILE" $values.redis.password) $files }}
{{- end }}
{{- if eq $role "poller" }}
{{- $settings = merge (dict "ROUNDS_CONCURRENCY" $its.concurrency "ROUNDS_HELD_CHECKS" $its.heldChecks) $settings }}
{{- end }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}-{{ $role }}
  labels:
    {{- include "rounds.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $role }}
spec:
  {{- if .replicas }}
  replicas: {{ .replicas }}
  {{- end }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 25%
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "rounds.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $role }}
  template:
    metadata:
      labels:
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "rounds.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $role }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "rounds.serviceAccount" $root }}
      automountServiceAccountToken: false
      # Variables of services would look like settings: ROUNDS_API_PORT.
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ add $values.gracePeriod 10 $sleep }}
      securityContext:
        {{- include "rounds.podSecurity" 65532 | nindent 8 }}
      {{- with $values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with $values.topologySpread }}
      topologySpreadConstraints:
        {{- include "rounds.spread" (dict "root" $root "role" $role "topologies" .) | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      containers:
        - name: rounds
          image: {{ include "rounds.image" $root | quote }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args: [serve]
          env:
            - name: ROUNDS_ROLES
              value: {{ $role }}
            - name: ROUNDS_OPS_ADDR
              value: 0.0.0.0:8081
            {{- if eq $role "api" }}
            - name: ROUNDS_API_ADDR
              value: 0.0.0.0:8080
            {{- end }}
            - name: ROUNDS_GRACE_PERIOD
              value: {{ $values.gracePeriod }}s
            - name: ROUNDS_LOG_FORMAT
              value: json
            - name: ROUNDS_REDIS_URL
              {{- if $values.redis.enabled }}
              value: redis://{{ $name }}-redis:6379
              {{- else }}
              valueFrom:
                secretKeyRef:
                  name: {{ $values.secret.name }}
                  key: {{ $values.secret.redisURL }}
              {{- end }}
            {{- range $setting, $key := $files }}
            {{- if $key }}
            - name: {{ $setting }}
              value: /run/rounds/{{ $key }}
            {{- end }}
            {{- end }}
            {{- if $its.secrets }}
            - name: ROUNDS_SECRETS_DIR
              value: /run/rounds-secrets
            {{- end }}
            {{- range $setting, $value := $settings }}
            - name: {{ $setting }}
              value: {{ ternary (int64 $value) $value (kindIs "float64" $value) | toString | quote }}
            {{- end }}
          ports:
            {{- if eq $role "api" }}
            - name: api
              containerPort: 8080
            {{- end }}
            - name: ops
              containerPort: 8081
          # /healthz answers whatever Redis does: a restart would not help.
          livenessProbe:
            httpGet: {path: /healthz, port: ops}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: ops}
            periodSeconds: 5
            timeoutSeconds: 3
            failureThreshold: 2
          {{- if $sleep }}
          lifecycle:
            # Until no Service leads here any more.
            preStop:
              sleep: {seconds: {{ $sleep }}}
          {{- end }}
          resources:
            {{- toYaml $its.resources | nindent 12 }}
          securityContext:
            {{- include "rounds.containerSecurity" nil | nindent 12 }}
          volumeMounts:
            - name: files
              mountPath: /run/rounds
              readOnly: true
            {{- if $its.secrets }}
            - name: secrets
              mountPath: /run/rounds-secrets
              readOnly: true
            {{- end }}
            {{- with $values.volumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: files
          secret:
            secretName: {{ $values.secret.name }}
            defaultMode: 0440
            items:
              {{- range $key := values $files | uniq | sortAlpha }}
              {{- if $key }}
              - {key: {{ $key }}, path: {{ $key }}}
              {{- end }}
              {{- end }}
        {{- if $its.secrets }}
        - name: secrets
          secret:
            secretName: {{ $its.secrets }}
            defaultMode: 0440
        {{- end }}
        {{- with $values.volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- if $values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}-{{ $role }}
  labels:
    {{- include "rounds.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ $role }}
spec:
  maxUnavailable: 1
  # A pod that is not ready, as while Redis is away, keeps no node from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "rounds.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ $role }}
{{- end }}
{{- end }}
