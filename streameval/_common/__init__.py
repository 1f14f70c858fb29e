"""The ground: errors, values, names, ids, array types, frames of bytes, atomic files."""
