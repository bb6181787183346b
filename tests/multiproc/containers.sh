#!/usr/bin/env bash
# The Dockerfile, the Helm chart and examples/servers.yaml, without a cluster. The chart is rendered by a small renderer,
# and by helm too if it is on PATH. The objects are checked, and a server runs with the arguments of the rendered
# container. The image's last stage runs in a copy of this system; BPS_TEST_LONG=1 builds the image if a builder and the
# base image are here.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BUILD=$(realpath "$BUILD") BIN=$BUILD/bin
cd "$(dirname "$0")/../.." || exit 1
python3 -c 'import yaml' 2> /dev/null || skip "no python3 with PyYAML"
export PYTHONDONTWRITEBYTECODE=1
tools=tests/multiproc/containers chart=packaging/helm/bps-server dockerfile=packaging/docker/Dockerfile
command -v helm > /dev/null || echo "skip: helm: not on this machine"
python3 -c 'import jsonschema' 2> /dev/null || echo "skip: jsonschema: not on this machine"

# values NAME: writes the values from standard input to $WORK/NAME.yaml.
values() { cat > "$WORK/$1.yaml"; }
# render NAME [CHART]: renders with the values of NAME into $WORK/NAME.objects.
render() { $tools/check_chart.py render "${2:-$chart}" "$WORK/used" "$WORK/$1.yaml" > "$WORK/$1.objects" 2> "$WORK/err"; }
accepted() { render "$1" || fail "$1: $(cat "$WORK/err")"; }
has() { grep -qE -- "$2" "$WORK/$1.objects" || fail "$1: no line \"$2\" in $(cat "$WORK/$1.objects")"; }
# refused ERROR [CHART]: the values from standard input are refused with this error.
refused() {
  values refused
  render refused "${2:-$chart}" && fail "accepted, without the error \"$1\": $(cat "$WORK/refused.yaml")"
  grep -qF -- "$1" "$WORK/err" || fail "no error \"$1\": $(cat "$WORK/err")"
}

values default <<< 'key: {existingSecret: bps-key}'
values deployment << 'END'
{kind: Deployment, key: {existingSecret: bps-key}, podAnnotations: {a: b}, affinity: {podAntiAffinity: {}}}
END
values all << 'END'
kind: StatefulSet
replicas: 3
image: {tag: v1}
imagePullSecrets: [{name: registry-login}]
key: {value: "a pass-phrase for the test", file: key}
hostNetwork: false
listenAddress: "[::]"
socketIfname: eth1
bandwidth: 12.5
extraArgs: [--threads, "8"]
extraEnv: [{name: NCCL_IB_DISABLE, value: "1"}]
tolerations: [{key: cpu, operator: Exists, effect: NoSchedule}]
priorityClassName: high
podAnnotations: {a: "true"}
podLabels: {team: x}
podDisruptionBudget: {enabled: true}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
networkPolicy: {enabled: true}
END
for name in default deployment all; do accepted $name; done
$tools/check_chart.py values $chart "$WORK/used" 2> "$WORK/err" || fail "$(cat "$WORK/err")"
[ "$(grep -c '^kind:' "$WORK/default.objects")" = 2 ] || fail "by default more than a DaemonSet and a Service"
has default '^kind: DaemonSet'
has default '^ +bps: server'
has deployment '^kind: Deployment'
for kind in StatefulSet Service Secret PodDisruptionBudget ServiceMonitor NetworkPolicy; do has all "^kind: $kind"; done
has all "key: $(printf 'a pass-phrase for the test' | base64)"
has all '^# +BPS_SERVERS=bps-server-0.bps-server.training:7700,bps-server-1.bps-server.training:7700,bps-server-2'

refused 'set key.existingSecret' <<< '{}'
refused 'key.existingSecret and key.value are both set' <<< 'key: {existingSecret: a, value: 0123456789abcdef}'
refused 'key.value:' <<< 'key: {value: short}'
refused "kind: 'Job' is none of DaemonSet" <<< '{kind: Job, key: {existingSecret: a}}'
refused 'ports.metric: there is no such value' <<< '{key: {existingSecret: a}, ports: {metric: 1}}'
refused 'ports.control: 70000 is not in 1 to 65535' <<< '{key: {existingSecret: a}, ports: {control: 70000}}'
refused "ports.control: '7700' is no integer" <<< '{key: {existingSecret: a}, ports: {control: "7700"}}'
refused 'ports.data.first is 7800, above ports.data.last, 7799' <<< '{key: {existingSecret: a}, ports: {data: {first: 7800}}}'
refused 'port 7710 is one of ports.data, 7701-7799' <<< '{key: {existingSecret: a}, ports: {metrics: 7710}}'
refused 'ports.control and ports.metrics are both 9770' <<< '{key: {existingSecret: a}, ports: {control: 9770}}'
refused 'networkPolicy.enabled has no effect with hostNetwork' <<< '{key: {existingSecret: a}, networkPolicy: {enabled: true}}'
refused 'the values: lacks key' <<< 'key: null'
refused 'resources: Resources has no field request' <<< '{key: {existingSecret: a}, resources: {request: {cpu: 1}}}'
refused "'2 GB' is no quantity" <<< '{key: {existingSecret: a}, resources: {limits: {memory: 2 GB}}}'
refused 'BPS_DEBUG is set twice' <<< '{key: {existingSecret: a}, extraEnv: [{name: BPS_DEBUG, value: WARN}]}'
refused 'two keys app.kubernetes.io/name' <<< '{key: {existingSecret: a}, podLabels: {app.kubernetes.io/name: a}}'

# changed FILE SED ERROR: a chart with this change to a template is refused.
changed() {
  rm -rf "$WORK/chart"; cp -r $chart "$WORK/chart"
  sed -i "$2" "$WORK/chart/$1"
  ! cmp -s "$chart/$1" "$WORK/chart/$1" || fail "sed $2 changes nothing in $1"
  refused "$3" "$WORK/chart" < "$WORK/${4:-default}.yaml"
}
workload=templates/workload.yaml
changed $workload 's/hostNetwork: true/hostNetworks: true/' 'Pod has no field hostNetworks'
changed $workload 's/^  selector:/  selectors:/' 'DaemonSetSpec lacks selector'
changed $workload 's/name: metrics/name: metric/' 'livenessProbe names the port metrics, there is control, metric'
changed $workload 's/name: bps-server$/name: bps_server/' "'bps_server' is no dnsLabel"
changed $workload '/volumeMounts:/,/mountPath/ s/name: key/name: keys/' 'there is no volume keys'
changed $workload '/path: .readyz/d' 'readinessProbe: Probe lacks httpGet'
changed $workload 's/dnsPolicy: .*/dnsPolicy: Default/' 'need dnsPolicy ClusterFirstWithHostNet'
changed $workload 's/containerPort: {{ int \$ports.control/&s/' 'values.yaml has no ports.controls'
changed $workload 's/{{- with .Values.priorityClassName/{{- with .Values.priority/' 'values.yaml has no priority'
changed $workload 's/| quote }}/| squote }}/' 'there is no function squote'
changed $workload 's/^      containers:/      containers: {{ end }}/' 'an end too many'
changed templates/service.yaml 's/targetPort: control/targetPort: data/' 'port 7700 is not data of a container'
changed templates/service.yaml 's/include "bps-server.selector" .*/include "bps-server.labels" . | nindent 4 }}\n    team: y/' 'Service bps-server: selects no pods'
changed templates/_helpers.tpl 's/define "bps-server.selector"/define "bps-server.select"/' 'include'
changed templates/networkpolicy.yaml 's/name: {{/name: Bps-{{/' "'Bps-bps-server' is no dnsName" all
changed templates/servicemonitor.yaml 's/port: metrics/port: metric/' 'no Service has a port metric' all
changed templates/secret.yaml 's/ | b64enc//' 'is no base64' all
changed templates/secret.yaml 's/{{ .Values.key.file }}:/other:/' 'the Secret bps-server-key has no item key' all
echo 'spare: 1' >> "$WORK/chart/values.yaml"
$tools/check_chart.py values "$WORK/chart" "$WORK/used" > "$WORK/out" 2>&1 && fail "an unused value is accepted"
for error in 'values.schema.json has no spare' 'no template reads spare'; do grep -q "$error" "$WORK/out" || fail "$(cat "$WORK/out")"; done

# examples/servers.yaml has the pods of the chart.
$tools/check_chart.py objects examples/servers.yaml 2> "$WORK/err" || fail "$(cat "$WORK/err")"
$tools/check_chart.py same "$WORK/default.objects" examples/servers.yaml 2> "$WORK/err" || fail "$(cat "$WORK/err")"
sed 's/runAsNonRoot: true/runAsNonRoot: false/' examples/servers.yaml > "$WORK/other.yaml"
$tools/check_chart.py same "$WORK/default.objects" "$WORK/other.yaml" 2> /dev/null && fail "another securityContext is the same"

# kubectl reads workloads into Kubernetes' own types: a field that it does not know is missing in what it prints.
typed() { kubectl set image --local -f "$1" bps-server=registry.example/typed:1 -o json > "$WORK/typed" 2> "$WORK/err" || fail "kubectl: $(cat "$WORK/err")"; }
if command -v kubectl > /dev/null; then
  for name in default deployment all; do
    python3 -c 'import sys, yaml; print(yaml.safe_dump(next(o for o in yaml.safe_load_all(open(sys.argv[1])) if "template" in o.get("spec", {}))))' \
      "$WORK/$name.objects" > "$WORK/workload.yaml"
    typed "$WORK/workload.yaml"
    $tools/check_chart.py lost "$WORK/workload.yaml" "$WORK/typed" 2> "$WORK/err" || fail "kubectl does not know: $(cat "$WORK/err")"
  done
  sed -i 's/hostNetwork/hostNetworks/; s/livenessProbe/liveProbe/' "$WORK/workload.yaml"
  typed "$WORK/workload.yaml"
  $tools/check_chart.py lost "$WORK/workload.yaml" "$WORK/typed" 2> "$WORK/err" && fail "kubectl keeps liveProbe"
  grep -q liveProbe "$WORK/err" || fail "$(cat "$WORK/err")"
else
  echo "skip: kubectl: not on this machine"
fi

# get PORT/PATH: prints the status of a page.
get() {
  timeout 5 bash -c 'exec 3<>"/dev/tcp/127.0.0.1/${1%%/*}" && printf "GET /%s HTTP/1.0\r\n\r\n" "${1#*/}" >&3 && read -r _ status _ <&3 && echo "$status"' get "$1"
}
# A server with the arguments and variables of the chart's container, on free ports.
control=$(free_port) metrics=$(free_port)
values running <<< "{key: {existingSecret: a}, listenAddress: 127.0.0.1, ports: {control: $control, metrics: $metrics, data: {first: 1024, last: 1024}}}"
accepted running
$tools/check_chart.py container "$WORK/running.objects" > "$WORK/container" || fail "no container"
. "$WORK/container"
chmod 440 "$WORK/key" # as the kubelet makes it
for i in "${!args[@]}"; do [ "${args[i]}" != 1024-1024 ] || args[i]=$(free_port) args[i]=${args[i]}-$((${args[i]} + 8)); done
env "${env[@]//\/etc\/bps\/bps.key/$WORK/key}" "$BIN/bps-server" "${args[@]}" > "$WORK/server.out" 2> "$WORK/server.err" & server=$!; PIDS+=("$server")
wait_for 10 grep -q '^listening on' "$WORK/server.out" || fail "the container's arguments: $(cat "$WORK/server.out" "$WORK/server.err")"
for page in "$live" "$ready"; do [ "$(get "$page")" = 200 ] || fail "$page answers $(get "$page")"; done
grep -q '"level":"INFO"' "$WORK/server.err" || fail "the log is not in JSON: $(cat "$WORK/server.err")"
kill -TERM "$server"; wait "$server" || fail "exit $? on SIGTERM"
chmod 600 "$WORK/key"
[ "TimeoutStopSec=$grace" = "$(grep ^TimeoutStopSec= packaging/systemd/bps-server.service)" ] || fail "the unit waits another time than $grace s"

# The Dockerfile.
$tools/check_dockerfile.py check $dockerfile . > "$WORK/out" || fail "$(cat "$WORK/out")"
# breaks SED ERROR: the changed Dockerfile is refused.
breaks() {
  sed "$1" $dockerfile > "$WORK/Dockerfile"
  $tools/check_dockerfile.py check "$WORK/Dockerfile" . > "$WORK/out" && fail "accepted after sed $1"
  grep -qF -- "$2" "$WORK/out" || fail "no error \"$2\": $(cat "$WORK/out")"
}
breaks 's/^COPY topo/COPY topology/' 'there is no topology'
breaks 's/^COPY topo/COPY docs/' '.dockerignore leaves out docs'
breaks 's/--from=build/--from=builder/' 'there is no earlier stage builder'
breaks 's/^USER.*/USER 0:0/' 'USER 0:0: expected numbers'
breaks '/^USER/d' 'has no USER'
breaks '/^HEALTHCHECK/,/CMD/d' 'has no HEALTHCHECK'
breaks 's/^EXPOSE.*/EXPOSE 7700 9770/' 'EXPOSE 7700 9770: the chart has'
breaks 's/^STOPSIGNAL.*/STOPSIGNAL SIGINT/' 'drains on SIGTERM'
breaks 's/^ENTRYPOINT.*/ENTRYPOINT bps-server/' 'expected a list in JSON'
breaks 's/libfmt-dev//' 'tools/deps.sh has libfmt-dev'
breaks 's/--no-install-recommends//' 'without --no-install-recommends'
breaks 's/12-slim/latest/' 'expected NAME=IMAGE:VERSION'
breaks 's/^WORKDIR/WORKDIRS/' 'the instruction WORKDIRS'

# run_stage: writes a script that starts what the image starts, as its user with a read-only root, and checks its health.
run_stage() {
  local entry command health variables
  entry=$($tools/check_dockerfile.py print $dockerfile ENTRYPOINT) command=$($tools/check_dockerfile.py print $dockerfile CMD)
  health=$($tools/check_dockerfile.py print $dockerfile HEALTHCHECK) variables=$($tools/check_dockerfile.py print $dockerfile ENV)
  cat << END
export BPS_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 $variables
$health 2> /dev/null && { echo "healthy without a server"; exit 1; }
$entry $command & server=\$!
for ((i = 0; i < 100; i++)); do $health 2> /dev/null && break; kill -0 \$server || exit 1; sleep .1; done
$health || { echo "not healthy"; exit 1; }
id -u | grep -qx 65532 || { echo "user \$(id -u)"; exit 1; }
! touch /usr/file 2> /dev/null || { echo "the root can be written"; exit 1; }
BPS_SERVERS=127.0.0.1:7700 bps-server --check || exit 1
kill -STOP \$server; timeout 2 $health && { echo "healthy although it is stopped"; exit 1; }; kill -CONT \$server
kill -TERM \$server; wait \$server || { echo "exit \$? on SIGTERM"; exit 1; }
echo "the server of the image ran"
END
}
run_stage > "$WORK/stage.sh"
command -v setpriv > /dev/null || skip "no setpriv: the image's last stage does not run"
{
  $tools/check_dockerfile.py print $dockerfile install | sed "s|/image/|/|"
  echo "mkdir -p /run/secrets && install -m 440 -g 65532 '$WORK/key' /run/secrets/bps-key"
  echo "cat > /stage.sh << 'END_OF_STAGE'"; cat "$WORK/stage.sh"; echo END_OF_STAGE
  echo "unshare --net --mount bash -ec 'ip link set lo up; mount -o remount,bind,ro / / 2> /dev/null || mount --bind -o ro / /
    exec setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all bash /stage.sh'"
  echo 'rm -r /stage.sh /usr/bin/bps-server /usr/lib/libnccl-net-bps.so /usr/share/doc/bps'
} > "$WORK/script"
in_system_copy "the image"

# The image itself, which takes minutes to build.
[ "${BPS_TEST_LONG:-0}" = 1 ] || { echo "skip: building the image: only with BPS_TEST_LONG=1"; exit 0; }
builder=
for name in docker podman buildah; do ! $name info > /dev/null 2>&1 || { builder=$name; break; }; done
base=$(sed -n 's/^ARG DEBIAN=//p' $dockerfile)
[ -n "$builder" ] || { echo "skip: building the image: no docker, podman or buildah that works here"; exit 0; }
$builder inspect --type image "$base" > /dev/null 2>&1 || { echo "skip: building the image: $base is not here ($builder pull $base)"; exit 0; }
# buildah needs the options: it is more than a builder of Dockerfiles, and by default looks for a newer base image.
options=() image=bps-server-test:$$
[ $builder != buildah ] || options=(--format docker --pull-never)
$builder build "${options[@]}" --network host -t "$image" -f $dockerfile . > "$WORK/out" 2>&1 || fail "$builder build: $(tail -n 20 "$WORK/out")"
chown 65532 "$WORK/key"
mounts=(-v "$WORK/stage.sh:/stage.sh:ro" -v "$WORK/key:/run/secrets/bps-key:ro")
chmod 755 "$WORK"
if [ $builder = buildah ]; then
  container=$(buildah from --pull-never "$image")
  unshare --net bash -c 'ip link set lo up; exec "$@"' run buildah run "${mounts[@]}" --cap-drop ALL "$container" -- bash /stage.sh > "$WORK/out" 2>&1
  status=$?
  buildah rm "$container" > /dev/null
else
  $builder run --rm --network none --read-only --cap-drop ALL "${mounts[@]}" --entrypoint bash "$image" /stage.sh > "$WORK/out" 2>&1
  status=$?
fi
$builder rmi "$image" > /dev/null
[ $status = 0 ] && grep -q '^the server of the image ran' "$WORK/out" || fail "the image: status $status: $(cat "$WORK/out")"
echo "the image: built and run by $builder"
