#!/bin/sh
# Creates what the service has for itself in /etc/rounds: a token, a password for Redis, and
# the commands that give Redis the user. An existing token or password is kept. install.sh
# and the packages call it.
#
# DESTDIR is prepended to all paths, for packages.
set -eu
etc=${DESTDIR:-}/etc/rounds
acl=$(dirname "$0")/../redis/rounds.acl
umask 077
random() { od -An -vtx1 -N32 /dev/urandom | tr -d ' \n'; }
for name in api-token redis-password; do
	[ -s "$etc/$name" ] || random >"$etc/$name"
done
hash=$(printf %s "$(cat "$etc/redis-password")" | sha256sum | cut -d' ' -f1)
{
	sed -n "s/^user rounds/ACL SETUSER rounds/; s/#PASSWORD_SHA256/#$hash/; /^ACL/p" "$acl"
	echo "CONFIG REWRITE"
} >"$etc/redis-user"
