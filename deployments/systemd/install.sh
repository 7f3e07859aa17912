#!/bin/sh
# Installs rounds as a systemd service: the binary (beside this script, or the one that its
# argument names), the unit, its settings, a token and a password for Redis. An existing
# token or password is kept.
#
#   sudo ./install.sh [PATH/TO/rounds]
#
# DESTDIR is prepended to all paths, for packages.
set -eu
binary=$(realpath "${1:-$(dirname "$0")/rounds}")
cd "$(dirname "$0")"
etc=${DESTDIR:-}/etc/rounds
umask 077
install -D -m 755 "$binary" "${DESTDIR:-}/usr/local/bin/rounds"
install -D -m 644 rounds.service "${DESTDIR:-}/etc/systemd/system/rounds.service"
install -D -m 644 rounds.socket "${DESTDIR:-}/etc/systemd/system/rounds.socket"
install -d -m 755 "$etc"
[ -e "$etc/rounds.env" ] || install -m 600 rounds.env "$etc/rounds.env"
random() { od -An -vtx1 -N32 /dev/urandom | tr -d ' \n'; }
for name in api-token redis-password; do
	[ -s "$etc/$name" ] || random >"$etc/$name"
done
hash=$(printf %s "$(cat "$etc/redis-password")" | sha256sum | cut -d' ' -f1)
{
	sed -n "s/^user rounds/ACL SETUSER rounds/; s/#PASSWORD_SHA256/#$hash/; /^ACL/p" ../redis/rounds.acl
	echo "CONFIG REWRITE"
} >"$etc/redis-user"
cat <<END
Give Redis the user that rounds has there, by its own settings file or, where it has an
aclfile, with ACL SAVE in place of CONFIG REWRITE:
  redis-cli <$etc/redis-user
Then start the service:
  systemctl daemon-reload && systemctl enable --now rounds
Commands find it with the token:
  ROUNDS_API_TOKEN_FILE=$etc/api-token rounds stats
END
