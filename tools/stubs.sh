#!/usr/bin/env bash
# Regenerates streameval/v1/ from proto/. `tools/stubs.sh --check` changes
# nothing and fails if the committed stubs differ.
#
# The generator has a separate environment: stubs of grpcio-tools 1.72.2
# (gencode 6.30) work with protobuf 6.30 to 7.x, while stubs of newer tools
# refuse older runtimes.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-stubs
if [ ! -x "$venv/bin/protoc-gen-mypy" ]; then
    "${PYTHON:-python3}" -m venv "$venv"
    "$venv/bin/pip" install -q grpcio-tools==1.72.2 mypy-protobuf==5.1.0 'setuptools<81'
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
PATH="$PWD/$venv/bin:$PATH" "$venv/bin/python" -m grpc_tools.protoc -I proto \
    --python_out="$out" --grpc_python_out="$out" --mypy_out="$out" --mypy_grpc_out="$out" \
    proto/streameval/v1/*.proto
# v1/__init__.py and v1/service_config.json are written by hand.
if [ "${1:-}" = --check ]; then
    cp streameval/v1/__init__.py streameval/v1/service_config.json "$out/streameval/v1/"
    diff -r --exclude=__pycache__ "$out/streameval/v1" streameval/v1 ||
        { echo "stubs differ from proto/: run 'make stubs'" >&2; exit 1; }
else
    find streameval/v1 -name '*_pb2*' -delete
    cp "$out"/streameval/v1/* streameval/v1/
fi
