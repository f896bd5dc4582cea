"""The pod template's schema, made lean."""

from __future__ import annotations

from trainshed import crd
from trainshed.api.spec import QUANTITY_PATTERN

SCHEMAS = {
    crd.WHAT: {
        "description": "a template",
        "type": "object",
        "properties": {
            "metadata": {"allOf": [{"$ref": f"#/components/schemas/{crd.METADATA}"}], "default": {}},
            "spec": {"$ref": "#/components/schemas/Spec"},
        },
    },
    crd.METADATA: {"type": "object"},
    "Spec": {
        "type": "object",
        "required": ["containers"],
        "properties": {
            "containers": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Container"},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "nodeSelector": {"type": "object", "additionalProperties": {"type": "string", "default": ""}},
            "pullSecrets": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "args": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"},
        },
    },
    "Container": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "its name"},
            "image": {"type": "string", "format": "unheard-of"},
            "ports": {"type": "array", "items": {"type": "string"}},
            "port": {"type": "string", "format": "int-or-string"},
            "cpu": {"$ref": f"#/components/schemas/{crd.QUANTITY}"},
            "count": {"type": "integer", "format": "int32"},
            "scheme": {"type": "string", "enum": ["HTTP", "HTTPS"]},
            "procMount": {"type": "string", "enum": ["Default"]},
        },
    },
    crd.QUANTITY: {"type": "string"},
}


def test_references_are_inlined_and_words_and_defaults_left_out():
    found = crd.strip_template({"components": {"schemas": SCHEMAS}})
    spec = found["properties"]["spec"]["properties"]
    assert found["properties"]["metadata"] == crd.METADATA_SCHEMA
    assert spec["nodeSelector"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert spec["args"]["x-kubernetes-list-type"] == "atomic"
    assert "description" not in str(found)
    assert "default" not in str(found)


def test_lists_merge_by_key_only_where_the_key_must_be_there():
    spec = crd.strip_template({"components": {"schemas": SCHEMAS}})["properties"]["spec"]["properties"]
    assert spec["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert "x-kubernetes-list-type" not in spec["pullSecrets"]


def test_quantities_are_numbers_or_text_and_what_rules_look_into_is_bounded():
    spec = crd.strip_template({"components": {"schemas": SCHEMAS}})["properties"]["spec"]["properties"]
    container = spec["containers"]["items"]["properties"]
    assert container["port"] == {"x-kubernetes-int-or-string": True}
    assert container["cpu"] == container["port"] | {"pattern": QUANTITY_PATTERN}
    assert container["count"] == {"type": "integer", "format": "int32"}
    assert container["image"] == {"type": "string", "maxLength": crd.LONGEST_IMAGE}
    assert spec["containers"]["maxItems"] == crd.MOST_CONTAINERS
    assert container["ports"] == {"type": "array", "items": {"type": "string"}, "maxItems": crd.MOST_PORTS}


def test_the_empty_text_is_a_value_only_where_the_api_server_reads_it_as_the_default():
    spec = crd.strip_template({"components": {"schemas": SCHEMAS}})["properties"]["spec"]["properties"]
    container = spec["containers"]["items"]["properties"]
    assert [container[name]["enum"] for name in ("scheme", "procMount")] == [["", "HTTP", "HTTPS"], ["Default"]]


def test_the_stored_schema_is_the_whole_template():
    spec = crd.template_schema()["properties"]["spec"]["properties"]
    assert {"containers", "initContainers", "volumes", "tolerations", "nodeSelector"} <= set(spec)
