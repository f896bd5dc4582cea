"""Pods and objects with names, keys and paths that are valid or not: one table for local runs and the API server."""

from __future__ import annotations

from hypothesis import strategies as st

NAMES = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
BACK, RELATIVE, START = "must not contain '..'", "must be a relative path", "must not start with '..'"
MODE = "must be a number between 0 and 0777 (octal), both inclusive"


def pod(*volumes: dict, mounts: tuple[dict, ...] = (), **container) -> dict:
    """A pod with one container; a volume without a name has the name v."""
    main = {"name": "main", "image": "x", "volumeMounts": list(mounts), **container}
    named = [{"name": "v", **volume} for volume in volumes]
    spec = {"containers": [main], "volumes": named, "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "namespace": "default"}, "spec": spec}


def in_pod(found: dict, **spec) -> dict:
    return {**found, "spec": {**found["spec"], **spec}}


def files(*items: dict, **more) -> dict:
    return {"configMap": {"name": "c", "items": list(items), **more}}


def mount(**more) -> dict:
    return {"name": "v", "mountPath": "/v", **more}


def item(path: str, **more) -> dict:
    return {"key": "k", "path": path, **more}


def projected(*sources: dict) -> dict:
    return pod({"projected": {"sources": list(sources)}})


def downward(path: str = "x", **fields) -> dict:
    return pod({"downwardAPI": {"items": [{"path": path, **fields}]}})


def port(number: int = 1, **fields) -> dict:
    return pod(ports=[{"containerPort": number, **fields}])


def variable(name: str, **fields) -> dict:
    return pod(env=[{"name": name, **fields}])


def variables(**fields) -> dict:
    return pod(envFrom=[fields])


DOWNWARD = {"fieldRef": {"fieldPath": "metadata.name"}}
EMPTY = {"emptyDir": {}}
#: The pod, and the problem in the words of the API server.
REFUSED: list[tuple[dict, str]] = [
    (
        pod(resources={"limits": {"cpu": "-1"}}),
        'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    (
        pod(resources={"limits": {"memory": "1Gi"}, "requests": {"memory": "2Gi"}}),
        'spec.containers[0].resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit',
    ),
    (pod(files(item("/etc/x"))), f'spec.volumes[0].configMap.items[0].path: Invalid value: "/etc/x": {RELATIVE}'),
    (pod(files(item("a/../../b"))), f'spec.volumes[0].configMap.items[0].path: Invalid value: "a/../../b": {BACK}'),
    (pod(files(item(".."))), f'spec.volumes[0].configMap.items[0].path: Invalid value: "..": {BACK}'),
    (pod(files(item("..data"))), f'spec.volumes[0].configMap.items[0].path: Invalid value: "..data": {START}'),
    (pod(files(item("..data/x"))), f'spec.volumes[0].configMap.items[0].path: Invalid value: "..data/x": {START}'),
    (pod(files(item(""))), "spec.volumes[0].configMap.items[0].path: Required value"),
    (pod(files({"key": "", "path": "a"})), "spec.volumes[0].configMap.items[0].key: Required value"),
    (pod(files(item("a", mode=512))), f"spec.volumes[0].configMap.items[0].mode: Invalid value: 512: {MODE}"),
    (pod(files(defaultMode=-1)), f"spec.volumes[0].configMap.defaultMode: Invalid value: -1: {MODE}"),
    (pod({"configMap": {}}), "spec.volumes[0].configMap.name: Required value"),
    (pod({"secret": {"items": []}}), "spec.volumes[0].secret.secretName: Required value"),
    (
        pod({"secret": {"secretName": "s", "items": [item("../x")]}}),
        f'spec.volumes[0].secret.items[0].path: Invalid value: "../x": {BACK}',
    ),
    (
        projected({"secret": {"name": "s", "items": [item("/x")]}}),
        f'spec.volumes[0].projected.sources[0].secret.items[0].path: Invalid value: "/x": {RELATIVE}',
    ),
    (projected({"configMap": {"name": "s", "items": [item("x"), item("x")]}}), "conflicting duplicate paths"),
    (projected({"configMap": {}}), "sources[0].configMap.name: Required value"),
    (
        projected({"configMap": {"name": "c"}, "secret": {"name": "s"}}),
        "spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
    ),
    (pod({"projected": {"defaultMode": 4096}}), f"spec.volumes[0].projected.defaultMode: Invalid value: 4096: {MODE}"),
    (downward(path="../x", **DOWNWARD), f'path: Invalid value: "../x": {BACK}'),
    (downward(), "Required value: one of fieldRef and resourceFieldRef is required"),
    (downward(fieldRef={"fieldPath": "spec.nodeName"}), 'fieldRef.fieldPath: Unsupported value: "spec.nodeName"'),
    (downward(resourceFieldRef={"resource": "limits.cpu"}), "resourceFieldRef.containerName: Required value"),
    (pod({"hostPath": {"path": "/a/../b"}}), f'spec.volumes[0].hostPath.path: Invalid value: "/a/../b": {BACK}'),
    (pod({"hostPath": {"path": ""}}), "spec.volumes[0].hostPath.path: Required value"),
    (pod({"hostPath": {"path": "/a", "type": "Folder"}}), 'spec.volumes[0].hostPath.type: Unsupported value: "Folder"'),
    (pod({"persistentVolumeClaim": {"claimName": ""}}), "persistentVolumeClaim.claimName: Required value"),
    (pod({"name": "../v", **EMPTY}), f'spec.volumes[0].name: Invalid value: "../v": {NAMES}'),
    (pod({"name": "a.b", **EMPTY}), 'spec.volumes[0].name: Invalid value: "a.b": must not contain dots'),
    (pod({"name": "a" * 64, **EMPTY}), "must be no more than 63"),
    (pod({"name": "", **EMPTY}), "spec.volumes[0].name: Required value"),
    (pod(EMPTY, EMPTY), 'spec.volumes[1].name: Duplicate value: "v"'),
    (pod({**EMPTY, "hostPath": {"path": "/a"}}), "Forbidden: may not specify more than 1 volume type"),
    (pod(mounts=(mount(),)), 'spec.containers[0].volumeMounts[0].name: Not found: "v"'),
    (pod(EMPTY, mounts=(mount(mountPath=""),)), "spec.containers[0].volumeMounts[0].mountPath: Required value"),
    (
        pod(EMPTY, mounts=(mount(), mount())),
        'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/v": must be unique',
    ),
    (pod(EMPTY, mounts=(mount(subPath="/etc"),)), f'subPath: Invalid value: "/etc": {RELATIVE}'),
    (pod(EMPTY, mounts=(mount(subPath="a/../../b"),)), f'subPath: Invalid value: "a/../../b": {BACK}'),
    (pod(EMPTY, mounts=(mount(subPathExpr="../$(A)"),)), f'subPathExpr: Invalid value: "../$(A)": {BACK}'),
    (pod(EMPTY, mounts=(mount(subPath="a", subPathExpr="a"),)), "subPathExpr and subPath are mutually exclusive"),
    (in_pod(pod(), hostname="x\n1.2.3.4 y"), f'spec.hostname: Invalid value: "x\\n1.2.3.4 y": {NAMES}'),
    (in_pod(pod(), subdomain="a.b"), 'spec.subdomain: Invalid value: "a.b": must not contain dots'),
    (pod(name="../main"), f'spec.containers[0].name: Invalid value: "../main": {NAMES}'),
    (variable("A=B", value="x"), 'spec.containers[0].env[0].name: Invalid value: "A=B": a valid'),
    (variable("A\nB", value="x"), 'spec.containers[0].env[0].name: Invalid value: "A\\nB": a valid'),
    (
        variable("A", valueFrom={"secretKeyRef": {"name": "s", "key": "../k"}}),
        'env[0].valueFrom.secretKeyRef.key: Invalid value: "../k": a valid config key',
    ),
    (variables(configMapRef={"name": "../c"}), 'envFrom[0].configMapRef.name: Invalid value: "../c": a lowercase'),
    (
        variables(prefix="A"),
        'spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
    ),
    (
        variables(configMapRef={"name": "c"}, secretRef={"name": "s"}),
        'spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time',
    ),
    (variables(configMapRef={}), "envFrom[0].configMapRef.name: Required value"),
    (port(65536), "ports[0].containerPort: Invalid value: 65536: must be between 1 and 65535"),
    (port(0), "ports[0].containerPort: Required value"),
    (port(hostPort=-1), "ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive"),
    (port(name="A_port"), 'ports[0].name: Invalid value: "A_port": must contain only alpha'),
    (
        port(name="-1--2345678901234"),
        'ports[0].name: Invalid value: "-1--2345678901234": must not contain consecutive hyphens',
    ),
    (
        pod(ports=[{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]),
        'ports[1].name: Duplicate value: "a"',
    ),
    (port(protocol="tcp"), 'ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"'),
    (
        pod(imagePullPolicy="Sometimes"),
        'imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"',
    ),
    (
        pod(terminationMessagePolicy="Log"),
        'terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError"',
    ),
    (in_pod(pod(), containers=[{"name": "a", "image": "x"}] * 2), 'spec.containers[1].name: Duplicate value: "a"'),
    (variables(prefix="=", configMapRef={"name": "c"}), 'envFrom[0].prefix: Invalid value: "=": a valid'),
]
#: Pods that the API server accepts.
ACCEPTED: list[dict] = [
    pod(
        imagePullPolicy="Never",
        ports=[{"containerPort": 65535, "name": "a-0"}, {"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}],
    ),
    pod(files(item("a/b/c.txt", mode=0), item("x/..y"), item("a..b"), item("./a//d"), defaultMode=0o777)),
    pod({"hostPath": {"path": "/a/..b/...", "type": ""}}, {"name": "0", **EMPTY}),
    pod({"name": "a" * 63}, mounts=({"name": "a" * 63, "mountPath": "/a:b", "subPath": "..a/b..", "readOnly": True},)),
    pod(
        {
            "projected": {
                "sources": [{"configMap": {"name": "c"}}, {"downwardAPI": {"items": [{"path": "x", **DOWNWARD}]}}]
            }
        }
    ),
    pod(EMPTY, mounts=(mount(subPathExpr="$(A)/$(B)"), mount(mountPath="v"), mount(mountPath="/../x"))),
    pod(
        env=[{"name": "a b#/\\", "value": "x"}, {"name": "..", "value": "\t\n"}], envFrom=[{"secretRef": {"name": "s"}}]
    ),
]
#: Objects that the API server refuses, and the problem.
REFUSED_OBJECTS: list[tuple[str, dict, str]] = [
    (
        "ConfigMap",
        {"data": {"../../.bashrc": ""}},
        'data[../../.bashrc]: Invalid value: "../../.bashrc": a valid config',
    ),
    ("ConfigMap", {"data": {"..": ""}}, "data[..]: Invalid value: \"..\": must not be '..'"),
    ("ConfigMap", {"data": {".": ""}}, "data[.]: Invalid value: \".\": must not be '.'"),
    ("ConfigMap", {"data": {"..x": ""}}, f'data[..x]: Invalid value: "..x": {START}'),
    ("ConfigMap", {"data": {"a" * 254: ""}}, "must be no more than 253"),
    ("ConfigMap", {"data": {"a": ""}, "binaryData": {"a": ""}}, "duplicate of key present in"),
    ("ConfigMap", {"data": {"a": "x" * (1 << 20), "b": "x"}}, "Too long: may not be more than 1048576 bytes"),
    (
        "ConfigMap",
        {"metadata": {"name": "../c"}},
        'metadata.name: Invalid value: "../c": a lowercase RFC 1123 subdomain',
    ),
    (
        "ConfigMap",
        {"metadata": {"name": "c", "labels": {"a b": "x"}}},
        'metadata.labels: Invalid value: "a b": name part must consist of alphanumeric',
    ),
    ("ConfigMap", {"metadata": {"name": "c", "labels": {"a" * 64: "x"}}}, "name part must be no more than 63"),
    (
        "ConfigMap",
        {"metadata": {"name": "c", "labels": {"a": "x y"}}},
        'labels: Invalid value: "x y": a valid label must',
    ),
    ("ConfigMap", {"metadata": {"name": "c", "labels": {"a": "x" * 64}}}, "must be no more than 63"),
    (
        "Secret",
        {"metadata": {"name": "c", "annotations": {"A_/b": "x"}}},
        '"A_/b": prefix part a lowercase RFC 1123 sub',
    ),
    ("Secret", {"metadata": {"name": "c", "annotations": {"/b": "x"}}}, '"/b": prefix part must be non-empty'),
    ("Secret", {"metadata": {"name": "c", "annotations": {"a/": "x"}}}, '"a/": name part must be non-empty'),
    (
        "Secret",
        {"metadata": {"name": "c", "annotations": {"a/b/c": "x"}}},
        '"a/b/c": a valid label key must consist',
    ),
    ("Secret", {"stringData": {"a/b": "x"}}, '[a/b]: Invalid value: "a/b": a valid config key'),
    ("Secret", {"data": {"a": "no base64"}}, "illegal base64 data"),
    ("PersistentVolumeClaim", {"metadata": {"name": "a/b"}}, 'metadata.name: Invalid value: "a/b": a lowercase RFC'),
]


def an_object(kind: str, parts: dict) -> dict:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"spec": spec} if kind == "PersistentVolumeClaim" else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "c", "namespace": "default"}, **claim} | parts


#: Texts near the limits of the rules, hostile ones among them.
TEXTS = st.one_of(
    st.sampled_from(
        ["a", "a-b", "a.b", "..", ".", "..a", "a..", "...", "/a", "a/", "a//b", "a/../b", "../a", "a/..", "~"]
    ),
    st.sampled_from(
        ["", " ", "a b", "A", "_", "-a", "é", "a\nb", "\u202e", "a" * 63, "a" * 64, "a" * 253, "a" * 254, "$(A)"]
    ),
    st.text(alphabet="ab./-_A$ :", max_size=8),
)
MODES = st.sampled_from([0, 1, 0o644, 0o777, 0o1000, -1, 99999])
ITEMS = st.lists(st.fixed_dictionaries({"key": TEXTS, "path": TEXTS}, optional={"mode": MODES}), max_size=2)
CONFIG_MAP = st.fixed_dictionaries({"name": st.just("c")}, optional={"items": ITEMS, "defaultMode": MODES})
SECRET = st.fixed_dictionaries({"secretName": st.just("s")}, optional={"items": ITEMS, "defaultMode": MODES})
DOWNWARD_ITEMS = st.lists(
    st.fixed_dictionaries({"path": TEXTS, **{k: st.just(v) for k, v in DOWNWARD.items()}}), max_size=2
)
SOURCES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"configMap": st.fixed_dictionaries({"name": st.just("c"), "items": ITEMS})}),
        st.fixed_dictionaries({"downwardAPI": st.fixed_dictionaries({"items": DOWNWARD_ITEMS})}),
    ),
    max_size=2,
)
VOLUMES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"name": TEXTS, "configMap": CONFIG_MAP}),
        st.fixed_dictionaries({"name": TEXTS, "secret": SECRET}),
        st.fixed_dictionaries({"name": TEXTS, "projected": st.fixed_dictionaries({"sources": SOURCES})}),
        st.fixed_dictionaries({"name": TEXTS, "downwardAPI": st.fixed_dictionaries({"items": DOWNWARD_ITEMS})}),
        st.fixed_dictionaries(
            {"name": TEXTS, "hostPath": st.fixed_dictionaries({"path": TEXTS.map("/tmp/{}".format)})}
        ),
        st.fixed_dictionaries({"name": TEXTS, "emptyDir": st.just({})}),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def pods(draw: st.DrawFn) -> dict:
    """Pods whose names and paths may be valid or not; most mounts are of volumes that exist."""
    volumes = draw(VOLUMES)
    names = st.sampled_from([volume["name"] for volume in volumes]) | TEXTS
    if draw(st.booleans()):  # else hardly any is valid
        volumes = [{**volume, "name": f"v{index}"} for index, volume in enumerate(volumes)]
        names = st.sampled_from([volume["name"] for volume in volumes])
    mounts = st.lists(
        st.fixed_dictionaries(
            {"name": names, "mountPath": TEXTS},
            optional={"subPath": TEXTS, "subPathExpr": TEXTS, "readOnly": st.booleans()},
        ),
        max_size=2,
    )
    env = draw(st.lists(st.fixed_dictionaries({"name": TEXTS, "value": TEXTS}), max_size=2))
    return pod(*volumes, mounts=tuple(draw(mounts)), env=env)
