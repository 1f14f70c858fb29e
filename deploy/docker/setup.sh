#!/bin/sh
# Creates, once, what a first start needs: a certificate authority, the server's
# certificate, a token for each kind of client, a password for Grafana. Does
# nothing when it has run before. To renew all of it, remove SERVER/.done and run it
# again: files are replaced only when all the new ones are complete, so after a failure
# the old ones still fit each other.
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
# New files are in the volume of the old ones, so that moving them replaces at once.
new=.new
discard() { rm -rf "$scratch" "$server/$new" "$clients/$new" "$monitoring/$new"; }
trap discard EXIT
rm -rf "$server/$new" "$clients/$new" "$monitoring/$new"  # of a run that was killed
mkdir "$server/$new" "$clients/$new" "$monitoring/$new"

# The authority's key is not stored.
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 825 \
    -subj "/CN=streameval authority" -addext "basicConstraints=critical,CA:TRUE" \
    -keyout "$scratch/ca.key" -out "$scratch/ca.pem" 2>/dev/null
openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc \
    -subj "/CN=streameval" -keyout "$server/$new/server.key" -out "$scratch/server.csr" 2>/dev/null
printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' "$names" \
    >"$scratch/extensions"
openssl x509 -req -in "$scratch/server.csr" -CA "$scratch/ca.pem" -CAkey "$scratch/ca.key" \
    -days 825 -extfile "$scratch/extensions" -out "$server/$new/server.pem" 2>/dev/null
for place in "$server" "$clients" "$monitoring"; do cp "$scratch/ca.pem" "$place/$new/ca.pem"; done

for scope in ingest query admin; do
    streameval admin token "$scope" --tokens "$server/$new/tokens.toml" --scope "$scope" \
        >"$clients/$new/$scope.token"
done
streameval admin token prometheus --tokens "$server/$new/tokens.toml" --scope query \
    >"$monitoring/$new/prometheus.token"
openssl rand -hex 24 >"$monitoring/$new/grafana.password"
# Prometheus and Grafana run as other users, who must be able to read these.
chmod 0444 "$monitoring/$new"/*

for place in "$server" "$clients" "$monitoring"; do mv -f "$place/$new"/* "$place"; done
touch "$server/.done"
