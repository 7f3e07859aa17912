#!/bin/sh
# Installs rounds as a systemd service: the binary (beside this script, in the folder above,
# or the one that its argument names), the unit, its settings, a token and a password for
# Redis. An existing token or password is kept.
#
#   sudo ./install.sh [PATH/TO/rounds]
#
# DESTDIR is prepended to all paths, for packages.
set -eu
here=$(dirname "$0")
binary=$here/rounds
[ -e "$binary" ] || binary=$here/../rounds
binary=$(realpath "${1:-$binary}")
cd "$here"
etc=${DESTDIR:-}/etc/rounds
umask 077
install -D -m 755 "$binary" "${DESTDIR:-}/usr/local/bin/rounds"
install -D -m 644 rounds.service "${DESTDIR:-}/etc/systemd/system/rounds.service"
install -D -m 644 rounds.socket "${DESTDIR:-}/etc/systemd/system/rounds.socket"
install -d -m 755 "$etc"
[ -e "$etc/rounds.env" ] || install -m 600 rounds.env "$etc/rounds.env"
./private.sh
cat <<END
Give Redis the user that rounds has there, by its own settings file or, where it has an
aclfile, with ACL SAVE in place of CONFIG REWRITE:
  redis-cli <$etc/redis-user
Then start the service:
  systemctl daemon-reload && systemctl enable --now rounds
Commands find it with the token:
  ROUNDS_API_TOKEN_FILE=$etc/api-token rounds stats
END
