#!/bin/sh
# Creates, once, what a first start needs: a certificate authority, the server's
# certificate, a token for each kind of client, a password for Grafana. Does
# nothing when it has run before.
#
#   streameval-setup SERVER CLIENTS MONITORING [NAME...]
#
# SERVER      directory for the server only: its key, the tokens' hashes
# CLIENTS     directory for users: the authority, tokens with the scopes ingest, query, admin
# MONITORING  directory for Prometheus and Grafana: the authority, a token with the scope
#             query, a password
# NAME        further host names of the server, besides localhost
set -eu
umask 077
server=$1 clients=$2 monitoring=$3
shift 3
[ -e "$server/.done" ] && exit 0

names="DNS:localhost,IP:127.0.0.1"
for name in "$@"; do names="$names,DNS:$name"; done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The authority's key is not stored: to renew, remove .done and run this again.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 825 \
    -subj "/CN=streameval authority" -addext "basicConstraints=critical,CA:TRUE" \
    -keyout "$scratch/ca.key" -out "$scratch/ca.pem" 2>/dev/null
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc \
    -subj "/CN=streameval" -keyout "$server/server.key" -out "$scratch/server.csr" 2>/dev/null
printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' "$names" \
    >"$scratch/extensions"
openssl x509 -req -in "$scratch/server.csr" -CA "$scratch/ca.pem" -CAkey "$scratch/ca.key" \
    -days 825 -extfile "$scratch/extensions" -out "$server/server.pem" 2>/dev/null
for place in "$server" "$clients" "$monitoring"; do cp "$scratch/ca.pem" "$place/ca.pem"; done

rm -f "$server/tokens.toml"
for scope in ingest query admin; do
    streameval admin token "$scope" --tokens "$server/tokens.toml" --scope "$scope" \
        >"$clients/$scope.token"
done
streameval admin token prometheus --tokens "$server/tokens.toml" --scope query \
    >"$monitoring/prometheus.token"
openssl rand -hex 24 >"$monitoring/grafana.password"
# Prometheus and Grafana run as other users, who must be able to read these.
chmod 0444 "$monitoring"/*
touch "$server/.done"
