#!/bin/sh
# Generates streamevalv1/, the client, from the proto files. Needs protoc.
set -eu
cd "$(dirname "$0")"
proto=../../proto
package=example.com/monitor/streamevalv1
set -- --go_out=. --go-grpc_out=. \
    --go_opt=module=example.com/monitor --go-grpc_opt=module=example.com/monitor
for file in "$proto"/streameval/v1/*.proto; do
    name=streameval/v1/$(basename "$file")
    set -- "$@" "--go_opt=M$name=$package" "--go-grpc_opt=M$name=$package" "$name"
done
exec protoc -I "$proto" \
    --plugin=protoc-gen-go="$(go tool -n protoc-gen-go)" \
    --plugin=protoc-gen-go-grpc="$(go tool -n protoc-gen-go-grpc)" "$@"
