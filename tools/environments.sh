#!/usr/bin/env bash
# Prints the table of docs/dependencies.md: whether streameval with all parts of its service shares an
# environment with other packages, resolved and not installed. Needs uv.
set -euo pipefail
cd "$(dirname "$0")/.."

resolve() { uv pip compile -q --python-version 3.11 --no-header --no-annotate --no-emit-index-url -; }
version_of() { grep -i "^$1==" | cut -d= -f3; }

echo "| package | alone | with streameval | protobuf | grpcio | prometheus-client | typer | jmespath | opentelemetry-proto |"
echo "|---|---|---|---|---|---|---|---|---|"
for wanted in tensorflow 'mlflow==3.1.*' mlflow kserve feast apache-beam sagemaker 'tritonclient[grpc]' \
    'ray[serve]'; do
    name=${wanted%%[\[=]*}
    alone=$(resolve <<<"$wanted")
    both=$(printf '%s\n' "streameval[client,files,server] @ file://$PWD" \
        "streameval-server @ file://$PWD/server" "$wanted" | resolve)
    row="| $wanted | $(version_of "$name" <<<"$alone") | $(version_of "$name" <<<"$both")"
    for shared in protobuf grpcio prometheus-client typer jmespath opentelemetry-proto; do
        row+=" | $(version_of "$shared" <<<"$both")"
    done
    echo "$row |"
done
