"""Spark's declared columns as Arrow's: the tables that a task returns need the exact types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

if TYPE_CHECKING:
    from collections.abc import Iterable

_PLAIN = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
}


def columns(declared: str) -> st.StructType:
    """Return the columns of a declaration in Spark SQL."""
    return st.StructType.fromDDL(declared)


def arrow_fields(declared: st.StructType) -> list[pa.Field]:
    """Return the same columns as Arrow fields."""
    return [pa.field(field.name, _arrow_type(field.dataType)) for field in declared]


def shape_of(table: pa.Table, by: Iterable[str], fields: list[pa.Field]) -> pa.Schema:
    """Return the schema of the groups' columns, as they are in `table`, then `fields`."""
    return pa.schema([*(table.schema.field(name) for name in by), *fields])


def _arrow_type(kind: Any) -> pa.DataType:
    if isinstance(kind, st.ArrayType):
        return pa.list_(_arrow_type(kind.elementType))
    if isinstance(kind, st.MapType):
        return pa.map_(_arrow_type(kind.keyType), _arrow_type(kind.valueType))
    if isinstance(kind, st.StructType):
        return pa.struct(arrow_fields(kind))
    return _PLAIN[kind.typeName()]
