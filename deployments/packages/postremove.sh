#!/bin/sh
# After the files were removed. "purge" of dpkg also removes the token and Redis' password,
# which no package contains; the system user stays, because files may still be its own.
set -eu
root=${DPKG_ROOT:-}
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
if [ "${1:-}" = purge ]; then
	rm -f "$root/etc/rounds/api-token" "$root/etc/rounds/redis-password" "$root/etc/rounds/redis-user"
	rmdir "$root/etc/rounds" 2>/dev/null || true
fi
