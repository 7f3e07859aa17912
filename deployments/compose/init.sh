#!/bin/sh
# Creates the secrets for compose.yaml: a token for the API, Redis passwords for rounds and
# for you, and the Redis users with these passwords. Existing files are kept. If you delete
# one, the next run creates another.
#
#   ./init.sh
#
# Only the owner can enter the folder. Files in it for containers can be read by all,
# because the processes there run as other users.
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
