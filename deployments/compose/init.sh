#!/bin/sh
# Writes what compose.yaml wants and nobody else may know, once: a token for the API,
# passwords of Redis for rounds and for you, and the users of Redis that have them. What
# is there stays as it is; delete a file, and the next run makes another.
#
#   ./init.sh
#
# The folder is for its owner alone. Files in it that containers have may be read by all,
# because the processes there are other users than whoever runs this.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p private secrets
chmod 711 secrets
random() { od -An -vtx1 -N32 /dev/urandom | tr -d ' \n'; }
digest() { printf %s "$(cat "$1")" | sha256sum | cut -d' ' -f1; }
if [ ! -s private/api-token ] && [ -f .env ]; then
	sed -n 's/^ROUNDS_API_TOKEN=//p' .env >private/api-token # as it was before this script
fi
for name in api-token redis-password redis-admin-password; do
	[ -s "private/$name" ] || random >"private/$name"
done
sed -e "s/#PASSWORD_SHA256/#$(digest private/redis-password)/" \
	-e "s/#ADMIN_SHA256/#$(digest private/redis-admin-password)/" ../redis/rounds.acl >private/users.acl~
mv -f private/users.acl~ private/users.acl
chmod 444 private/api-token private/redis-password private/users.acl
