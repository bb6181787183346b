"""Checks Kubernetes objects without a cluster: the fields of the kinds that packaging/helm uses with their types, names,
and references from object to object. A field that is not in FIELDS is an error."""
import base64
import re

# TYPE: {field: type}. "!" marks required fields, [T] is a list, {T} a map from names to T.
FIELDS = {
    "Metadata": {"name": "dnsName!", "namespace": "dnsLabel", "labels": "{label}", "annotations": "{string}"},
    "DaemonSet": {"metadata": "Metadata!", "spec": "DaemonSetSpec!"},
    "Deployment": {"metadata": "Metadata!", "spec": "DeploymentSpec!"},
    "StatefulSet": {"metadata": "Metadata!", "spec": "StatefulSetSpec!"},
    "DaemonSetSpec": {"selector": "Selector!", "template": "PodTemplate!", "updateStrategy": "Strategy", "minReadySeconds": "int"},
    "DeploymentSpec": {"replicas": "int", "selector": "Selector!", "template": "PodTemplate!", "strategy": "Strategy",
                       "minReadySeconds": "int", "revisionHistoryLimit": "int"},
    "StatefulSetSpec": {"replicas": "int", "selector": "Selector!", "template": "PodTemplate!", "serviceName": "dnsLabel!",
                        "podManagementPolicy": "OrderedReady|Parallel", "updateStrategy": "Strategy"},
    "Strategy": {"type": "RollingUpdate|Recreate|OnDelete!", "rollingUpdate": "RollingUpdate"},
    "RollingUpdate": {"maxSurge": "intOrPercent", "maxUnavailable": "intOrPercent"},
    "Selector": {"matchLabels": "{label}", "matchExpressions": "[Expression]"},
    "Expression": {"key": "labelKey!", "operator": "In|NotIn|Exists|DoesNotExist|Gt|Lt!", "values": "[label]"},
    "PodTemplate": {"metadata": "TemplateMetadata!", "spec": "Pod!"},
    "TemplateMetadata": {"labels": "{label}!", "annotations": "{string}"},
    "Pod": {"containers": "[Container]!", "volumes": "[Volume]", "hostNetwork": "bool", "nodeSelector": "{label}",
            "dnsPolicy": "ClusterFirst|ClusterFirstWithHostNet|Default|None", "tolerations": "[Toleration]",
            "affinity": "Affinity", "priorityClassName": "dnsName", "terminationGracePeriodSeconds": "int",
            "securityContext": "PodSecurity", "imagePullSecrets": "[Reference]", "automountServiceAccountToken": "bool",
            "serviceAccountName": "dnsName"},
    "Reference": {"name": "dnsName!"},
    "Toleration": {"key": "labelKey", "operator": "Exists|Equal", "value": "label", "tolerationSeconds": "int",
                   "effect": "NoSchedule|PreferNoSchedule|NoExecute"},
    "Affinity": {"podAntiAffinity": "PodAffinity", "podAffinity": "PodAffinity", "nodeAffinity": "NodeAffinity"},
    "PodAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "[PodAffinityTerm]"},
    "PodAffinityTerm": {"topologyKey": "labelKey!", "labelSelector": "Selector", "namespaces": "[dnsLabel]"},
    "NodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": "NodeSelector"},
    "NodeSelector": {"nodeSelectorTerms": "[NodeTerm]!"},
    "NodeTerm": {"matchExpressions": "[Expression]"},
    "PodSecurity": {"runAsNonRoot": "bool", "runAsUser": "int", "runAsGroup": "int", "fsGroup": "int",
                    "seccompProfile": "Seccomp", "supplementalGroups": "[int]"},
    "Seccomp": {"type": "RuntimeDefault|Unconfined|Localhost!", "localhostProfile": "string"},
    "Container": {"name": "dnsLabel!", "image": "image!", "imagePullPolicy": "Always|IfNotPresent|Never",
                  "command": "[string]", "args": "[string]", "env": "[Variable]", "ports": "[ContainerPort]",
                  "livenessProbe": "Probe", "readinessProbe": "Probe", "resources": "Resources",
                  "securityContext": "Security", "volumeMounts": "[Mount]"},
    "Variable": {"name": "variable!", "value": "string", "valueFrom": "VariableSource"},
    "VariableSource": {"fieldRef": "FieldRef", "secretKeyRef": "SecretKeyRef"},
    "FieldRef": {"fieldPath": "string!"},
    "SecretKeyRef": {"name": "dnsName!", "key": "secretKey!"},
    "ContainerPort": {"name": "portName!", "containerPort": "port!", "hostPort": "port", "protocol": "TCP|UDP|SCTP"},
    "Probe": {"httpGet": "HttpGet!", "initialDelaySeconds": "int", "periodSeconds": "int", "timeoutSeconds": "int",
              "successThreshold": "int", "failureThreshold": "int"},
    "HttpGet": {"path": "path!", "port": "portName!", "scheme": "HTTP|HTTPS"},
    "Resources": {"requests": "{quantity}", "limits": "{quantity}"},
    "Security": {"allowPrivilegeEscalation": "bool", "readOnlyRootFilesystem": "bool", "capabilities": "Capabilities",
                 "privileged": "bool", "runAsNonRoot": "bool", "runAsUser": "int"},
    "Capabilities": {"drop": "[string]", "add": "[string]"},
    "Mount": {"name": "dnsLabel!", "mountPath": "path!", "readOnly": "bool", "subPath": "string"},
    "Volume": {"name": "dnsLabel!", "secret": "SecretVolume", "emptyDir": "EmptyDir"},
    "EmptyDir": {"medium": "string", "sizeLimit": "quantity"},
    "SecretVolume": {"secretName": "dnsName!", "defaultMode": "mode", "items": "[Item]"},
    "Item": {"key": "secretKey!", "path": "string!", "mode": "mode"},
    "Secret": {"metadata": "Metadata!", "type": "string", "data": "{base64}", "stringData": "{string}"},
    "Service": {"metadata": "Metadata!", "spec": "ServiceSpec!"},
    "ServiceSpec": {"clusterIP": "None", "selector": "{label}!", "ports": "[ServicePort]!", "publishNotReadyAddresses": "bool",
                    "type": "ClusterIP"},
    "ServicePort": {"name": "portName!", "port": "port!", "targetPort": "portName!", "protocol": "TCP|UDP|SCTP"},
    "PodDisruptionBudget": {"metadata": "Metadata!", "spec": "BudgetSpec!"},
    "BudgetSpec": {"maxUnavailable": "intOrPercent!", "selector": "Selector!"},
    "NetworkPolicy": {"metadata": "Metadata!", "spec": "PolicySpec!"},
    "PolicySpec": {"podSelector": "Selector!", "policyTypes": "[Ingress|Egress]!", "ingress": "[IngressRule]"},
    "IngressRule": {"from": "[Peer]!", "ports": "[PolicyPort]!"},
    "Peer": {"podSelector": "Selector", "namespaceSelector": "Selector", "ipBlock": "IpBlock"},
    "IpBlock": {"cidr": "string!", "except": "[string]"},
    "PolicyPort": {"protocol": "TCP|UDP|SCTP", "port": "port!", "endPort": "port"},
    "ServiceMonitor": {"metadata": "Metadata!", "spec": "MonitorSpec!"},
    "MonitorSpec": {"selector": "Selector!", "endpoints": "[Endpoint]!"},
    "Endpoint": {"port": "portName!", "path": "path", "interval": "duration"},
}
VERSIONS = {"DaemonSet": "apps/v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1", "Secret": "v1", "Service": "v1",
            "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1",
            "ServiceMonitor": "monitoring.coreos.com/v1"}
WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
QUALIFIED = rf"({LABEL}(\.{LABEL})*/)?[A-Za-z0-9]([-\w.]{{0,61}}[A-Za-z0-9])?"
PATTERNS = {
    "string": r".*", "dnsLabel": LABEL, "dnsName": rf"{LABEL}(\.{LABEL})*", "labelKey": QUALIFIED,
    "label": r"([A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?)?", "secretKey": r"[-._A-Za-z0-9]{1,253}", "variable": r"[A-Za-z_]\w*",
    "portName": r"(?=.{1,15}$)[a-z0-9]+(-[a-z0-9]+)*", "path": r"/[\w/.-]*", "duration": r"([0-9]+(ms|s|m|h))+",
    "quantity": r"[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?", "image": r"[a-z0-9][\w./:-]*:[\w][\w.-]{0,127}"}
NUMBERS = {"int": (0, 2**31 - 1), "port": (1, 65535), "mode": (0, 0o777)}


def check_type(value, kind, place, errors):
    required_kind = kind.rstrip("!")
    if required_kind[0] == "[" and required_kind[-1] == "]":
        if not isinstance(value, list):
            errors.append(f"{place}: is no list")
        else:
            for at, part in enumerate(value):
                check_type(part, required_kind[1:-1], f"{place}[{at}]", errors)
    elif required_kind[0] == "{":
        if not isinstance(value, dict):
            errors.append(f"{place}: is no map")
            return
        for key, part in value.items():
            if not isinstance(key, str) or not re.fullmatch(QUALIFIED, key):
                errors.append(f"{place}: {key!r} is no name")
            check_type(part, required_kind[1:-1], f"{place}.{key}", errors)
    elif required_kind in FIELDS:
        check_fields(value, required_kind, place, errors)
    else:
        check_scalar(value, required_kind, place, errors)


def check_scalar(value, kind, place, errors):
    number = type(value) is int
    if kind in NUMBERS:
        good = number and NUMBERS[kind][0] <= value <= NUMBERS[kind][1]
    elif kind == "bool":
        good = isinstance(value, bool)
    elif kind == "intOrPercent":
        good = number and value >= 0 or isinstance(value, str) and re.fullmatch(r"[0-9]+%", value)
    elif kind == "quantity" and number:
        good = value >= 0
    elif kind == "base64":
        try:
            good = bool(base64.b64decode(value, validate=True))
        except (ValueError, TypeError):
            good = False
    elif kind in PATTERNS:
        good = isinstance(value, str) and re.fullmatch(PATTERNS[kind], value, re.S)
        good = good and len(value) <= (253 if kind == "dnsName" else 63 if kind == "dnsLabel" else 10**6)
    else:
        good = value in kind.split("|")
    if not good:
        errors.append(f"{place}: {value!r} is no {kind}")


def check_fields(value, kind, place, errors):
    if not isinstance(value, dict):
        errors.append(f"{place}: is no {kind}")
        return
    for name, part in value.items():
        if name in ("apiVersion", "kind") and kind in VERSIONS:
            continue
        if name not in FIELDS[kind]:
            errors.append(f"{place}: {kind} has no field {name}")
        else:
            check_type(part, FIELDS[kind][name], f"{place}.{name}", errors)
    for name, wanted in FIELDS[kind].items():
        if wanted.endswith("!") and (name not in value or value[name] in ([], {}, None) and wanted != "Selector!"):
            errors.append(f"{place}: {kind} lacks {name}")


def selects(selector, labels):
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def check_pod(place, template, secrets, errors):
    pod = template["spec"]
    volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
    for volume in volumes.values():
        if len(volume) != 2:
            errors.append(f"{place}: the volume {volume['name']} must have one source")
        secret = secrets.get(volume.get("secret", {}).get("secretName"))
        for item in volume.get("secret", {}).get("items", []) if secret else []:
            if item["key"] not in secret.get("data", {}):
                errors.append(f"{place}: the Secret {secret['metadata']['name']} has no item {item['key']}")
    for container in pod["containers"]:
        ports = [port["name"] for port in container.get("ports", [])]
        if len(set(ports)) < len(ports):
            errors.append(f"{place}: two ports have one name")
        for probe in ("livenessProbe", "readinessProbe"):
            if probe not in container:
                errors.append(f"{place}: no {probe}")
            elif container[probe]["httpGet"]["port"] not in ports:
                errors.append(f"{place}: {probe} names the port {container[probe]['httpGet']['port']}, there is {', '.join(ports)}")
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                errors.append(f"{place}: there is no volume {mount['name']}")
        variables = [variable["name"] for variable in container.get("env", [])]
        errors += [f"{place}: {name} is set twice" for name in sorted(set(variables)) if variables.count(name) > 1]
    if pod.get("hostNetwork") and pod.get("dnsPolicy") != "ClusterFirstWithHostNet":
        errors.append(f"{place}: with hostNetwork, names of the cluster need dnsPolicy ClusterFirstWithHostNet")


def check_references(objects, errors):
    of_kind = lambda kind: [item for item in objects if item["kind"] == kind]
    secrets = {item["metadata"]["name"]: item for item in of_kind("Secret")}
    services = {item["metadata"]["name"]: item for item in of_kind("Service")}
    pods = []
    for item in (item for kind in WORKLOADS for item in of_kind(kind)):
        place, template = f"{item['kind']} {item['metadata']['name']}", item["spec"]["template"]
        pods.append(template)
        if not selects(item["spec"]["selector"].get("matchLabels"), template["metadata"]["labels"]):
            errors.append(f"{place}: the selector does not select its own pods")
        if item["kind"] == "StatefulSet" and item["spec"]["serviceName"] not in services:
            errors.append(f"{place}: there is no Service {item['spec']['serviceName']}")
        check_pod(place, template, secrets, errors)
    selected = lambda selector: [pod for pod in pods if selects(selector, pod["metadata"]["labels"])]
    for service in services.values():
        chosen = selected(service["spec"]["selector"])
        ports = {port["name"]: port["containerPort"] for pod in chosen for c in pod["spec"]["containers"] for port in c["ports"]}
        if not chosen:
            errors.append(f"Service {service['metadata']['name']}: selects no pods")
        for port in service["spec"]["ports"]:
            if ports.get(port["targetPort"]) != port["port"]:  # a headless Service does not translate ports
                errors.append(f"Service {service['metadata']['name']}: port {port['port']} is not {port['targetPort']} of a container")
    for kind, field in ("PodDisruptionBudget", "selector"), ("NetworkPolicy", "podSelector"):
        for item in of_kind(kind):
            if not selected(item["spec"][field].get("matchLabels")):
                errors.append(f"{kind} {item['metadata']['name']}: selects no pods")
    for item in of_kind("ServiceMonitor"):
        chosen = [s for s in services.values() if selects(item["spec"]["selector"].get("matchLabels"), s["metadata"]["labels"])]
        names = [port["name"] for service in chosen for port in service["spec"]["ports"]]
        for endpoint in item["spec"]["endpoints"]:
            if endpoint["port"] not in names:
                errors.append(f"ServiceMonitor {item['metadata']['name']}: no Service has a port {endpoint['port']}")


def check_objects(objects):
    """Returns the errors in a list of objects."""
    errors, seen = [], set()
    for item in objects:
        kind = item.get("kind")
        if VERSIONS.get(kind) is None or item.get("apiVersion") != VERSIONS[kind]:
            errors.append(f"{item.get('apiVersion')} {kind}: is none of {VERSIONS}")
            continue
        check_fields(item, kind, kind, errors)
        name = kind, item.get("metadata", {}).get("name")
        if name in seen:
            errors.append(f"{kind} {name[1]}: is there twice")
        seen.add(name)
    if not errors:
        check_references(objects, errors)
    return errors
