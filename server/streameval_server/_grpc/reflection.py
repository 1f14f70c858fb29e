"""Server reflection, as v1 and as v1alpha: tools ask for either.

grpcio-reflection has v1alpha only (grpc/grpc#38576). Both have the same messages, so v1 is the
same servicer under the other name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable

_METHOD = "ServerReflectionInfo"
_ALPHA, _V1 = "grpc.reflection.v1alpha", "grpc.reflection.v1"
_V1_FILE = "grpc/reflection/v1/reflection.proto"

REFLECTION_SERVICES = (reflection.SERVICE_NAME, f"{_V1}.ServerReflection")
"""Full names of the two services."""


def add_reflection(server: grpc.aio.Server, services: Iterable[str]) -> None:
    """Serve the descriptors of services, and of reflection itself."""
    _describe_v1()
    servicer = reflection.aio.ReflectionServicer((*services, *REFLECTION_SERVICES))
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]  # its stubs have no types
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(REFLECTION_SERVICES[1], {_METHOD: handler}),)
    )


def _describe_v1() -> None:
    """Add v1's description to protobuf's default pool, unless the pool has it already."""
    pool = descriptor_pool.Default()
    try:
        pool.FindFileByName(_V1_FILE)
    except KeyError:
        v1 = descriptor_pb2.FileDescriptorProto()
        reflection_pb2.DESCRIPTOR.CopyToProto(v1)
        v1.name, v1.package = _V1_FILE, _V1
        for message in v1.message_type:
            for field in message.field:
                if field.type_name:
                    field.type_name = field.type_name.replace(_ALPHA, _V1)
        for method in v1.service[0].method:
            method.input_type = method.input_type.replace(_ALPHA, _V1)
            method.output_type = method.output_type.replace(_ALPHA, _V1)
        pool.AddSerializedFile(v1.SerializeToString())
