"""/openapi.json: the routes and their messages as an OpenAPI 3.1 description.

Made from the table of routes and the contract's descriptors, so it cannot differ from them.
Messages of answers require every field that JSON always has; the same messages in a body,
named ``...Input``, require only the fields that the server demands.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor

from streameval import __version__
from streameval_server._security.rules import rule_of
from streameval_server._web.routes import ROUTES, Answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, EnumDescriptor

    from streameval_server._web.routes import Route

    Schema = dict[str, Any]

_WITH_BODY = frozenset({"POST", "PATCH"})

_SPAN = ("selection.between.startTime", "selection.between.endTime")
_DEMANDED: dict[str, tuple[str, ...]] = {
    "AcknowledgeAlarm": ("number",),
    "CompareStreams": ("a.stream", "b.stream"),
    "CreateMark": ("text",),
    "CreatePair": ("pair",),
    "CreateStream": ("stream",),
    "DeleteMark": ("number",),
    "GetCurve": ("kind",),
    "ListPairComparisons": ("step", *_SPAN),
    "ListWindows": ("step", *_SPAN),
    "SampleForLabels": ("size",),
    "UpdateStream": ("updateMask",),
}
"""By method, the fields beyond the path without which the server refuses each request."""

_UINT32: Schema = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_INT64: Schema = {"type": "string", "pattern": r"^-?[0-9]{1,19}$"}
_UINT64: Schema = {"type": "string", "pattern": r"^[0-9]{1,20}$"}
_FLOAT: Schema = {
    "anyOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}]
}

_SCALARS: dict[int, Schema] = {
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_DOUBLE: _FLOAT,
    FieldDescriptor.TYPE_INT32: {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    FieldDescriptor.TYPE_UINT32: _UINT32,
    FieldDescriptor.TYPE_FIXED32: _UINT32,
    FieldDescriptor.TYPE_INT64: _INT64,
    FieldDescriptor.TYPE_SFIXED64: _INT64,
    FieldDescriptor.TYPE_UINT64: _UINT64,
    FieldDescriptor.TYPE_FIXED64: _UINT64,
}
"""JSON of each type of the contract; 64-bit integers are texts."""

_TEXTS: dict[str, Schema] = {
    "google.protobuf.Duration": {
        "type": "string",
        "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,9})?s$",
        "examples": ["3600s"],
    },
    "google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    "google.protobuf.FieldMask": {"type": "string", "examples": ["settings.labelTtl"]},
}
"""Messages that JSON has as texts."""

_NAME: Schema = {
    "name": "name",
    "in": "path",
    "required": True,
    "description": "The name of the stream or pair; its slashes may stay as they are.",
    "schema": {
        "type": "string",
        "pattern": r"^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*$",
        "maxLength": 128,
        "examples": ["fraud/v3"],
    },
}

_ERROR: Schema = {
    "description": "An error: google.rpc.Status, with the details that gRPC has.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Status"}}},
}

_STATUS: Schema = {
    "type": "object",
    "required": ["code", "message", "details"],
    "properties": {
        "code": {"type": "integer"},
        "message": {"type": "string"},
        "details": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["@type"],
                "properties": {"@type": {"type": "string"}},
            },
        },
    },
}


@functools.cache
def description() -> bytes:
    """Return the description of all routes, as JSON. O(routes and messages) once."""
    answers, bodies = _Messages(""), _Messages("Input")
    paths: dict[str, Schema] = {}
    for route in ROUTES:
        method = descriptor_pool.Default().FindMethodByName(route.method.replace("/", "."))
        operation = _operation(route, answers, method.output_type)
        request = method.input_type
        demanded = _DEMANDED.get(method.name, ())
        if route.verb in _WITH_BODY:
            content = {"application/json": {"schema": bodies.schema_of(request)}}
            operation["requestBody"] = {"required": True, "content": content}
            if demanded:  # a request is of one method, so the others' schemas stay as they are
                bodies.schemas[f"{request.name}Input"]["required"] = list(demanded)
        else:
            for parameter in _parameters(request, route.name, answers):
                required = {"required": True} if parameter["name"] in demanded else {}
                operation["parameters"].append(parameter | required)
        paths.setdefault(route.path, {})[route.verb.lower()] = operation
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {
                "title": "streameval",
                "version": __version__,
                "description": "Metrics of binary scorers: the gRPC contract as JSON over HTTP.",
            },
            # Relative to this document, which a proxy may serve below a prefix.
            "servers": [{"url": "."}],
            # A server without tokens asks for none.
            "security": [{"token": []}, {}],
            "paths": paths,
            "components": {
                "schemas": {"Status": _STATUS, **answers.schemas, **bodies.schemas},
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            },
        }
    ).encode()


def _operation(route: Route, answers: _Messages, answer: Descriptor) -> Schema:
    """Return an operation without its request."""
    name = route.method.rpartition("/")[2]
    scope = rule_of(route.method).scope
    assert scope is not None
    match route.answer:
        case Answer.JSON:
            content = {"application/json": {"schema": answers.schema_of(answer)}}
        case Answer.BYTES:
            content = {"application/octet-stream": {}}
        case Answer.EVENTS:
            answers.schema_of(answer)
            content = {"text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": name,
        "tags": [route.method.rpartition("/")[0].rpartition(".")[2]],
        "summary": re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize(),
        "description": f"Needs the scope {scope.value} where the server has tokens.",
        "parameters": [_NAME] if "{name}" in route.path else [],
        "responses": {"200": {"description": name, "content": content}, "default": _ERROR},
    }


def _parameters(
    message: Descriptor, bound: str, messages: _Messages, prefix: str = ""
) -> Iterator[Schema]:
    """Yield a parameter for each field of a request, by its path; not for the route's own one."""
    for field in message.fields:
        path = prefix + field.json_name
        if field.message_type is not None and field.message_type.full_name not in _TEXTS:
            if not field.is_repeated:
                yield from _parameters(field.message_type, bound, messages, f"{path}.")
        elif path != bound:
            yield {"name": path, "in": "query", "schema": messages.field_schema(field)}


class _Messages:
    """The schemas of messages and of all that they contain.

    Parameters
    ----------
    suffix : str
        Ends the names of the schemas. An empty one is for answers, whose fields without
        presence are always there.
    """

    def __init__(self, suffix: str) -> None:
        self.schemas: dict[str, Schema] = {}
        self._suffix = suffix

    def schema_of(self, message: Descriptor) -> Schema:
        """Return a reference to a message's schema, which is made when first asked for."""
        name = message.name + self._suffix
        if name not in self.schemas:
            schema: Schema = {"type": "object", "additionalProperties": False}
            self.schemas[name] = schema  # before its fields, in case they contain it
            schema["properties"] = {
                field.json_name: self.field_schema(field) for field in message.fields
            }
            if not self._suffix:
                always = [field.json_name for field in message.fields if not field.has_presence]
                schema["required"] = always
        return {"$ref": f"#/components/schemas/{name}"}

    def field_schema(self, field: FieldDescriptor) -> Schema:
        """Return the schema of a field."""
        schema = self._one(field)
        return {"type": "array", "items": schema} if field.is_repeated else schema

    def _one(self, field: FieldDescriptor) -> Schema:
        if field.message_type is not None:
            text = _TEXTS.get(field.message_type.full_name)
            return self.schema_of(field.message_type) if text is None else text
        if field.enum_type is not None:
            return self._enum(field.enum_type)
        return _SCALARS[field.type]

    def _enum(self, enum: EnumDescriptor) -> Schema:
        self.schemas[enum.name] = {"type": "string", "enum": [each.name for each in enum.values]}
        return {"$ref": f"#/components/schemas/{enum.name}"}
