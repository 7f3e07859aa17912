#!/bin/sh
# After the files of the .deb or the .rpm were installed: the system user, the token and
# Redis' password. Nothing is started that did not run.
#
# dpkg calls it with "configure" and the version before, if there was one; rpm with 1 at
# the first installation and with 2 or more at an upgrade.
set -eu
root=${DPKG_ROOT:-}
before=
case "${1:-}" in
configure) before=${2:-} ;;
abort-* | triggered) exit 0 ;;
1) ;;
*) before=yes ;;
esac

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers ${root:+--root="$root"} rounds.conf
elif ! grep -q '^rounds:' "$root/etc/passwd" 2>/dev/null; then
	useradd ${root:+--root "$root"} --system --user-group --home-dir / --no-create-home --shell /usr/sbin/nologin rounds
fi
DESTDIR=$root "$root/usr/share/rounds/systemd/private.sh"

if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	[ -z "$before" ] || systemctl try-restart rounds.service
fi
[ -z "$before" ] || exit 0
cat <<END
rounds is installed and does not run yet. Give Redis the user that rounds has there, by its
own settings file or, where it has an aclfile, with ACL SAVE in place of CONFIG REWRITE:
  redis-cli </etc/rounds/redis-user
Then start the service:
  systemctl enable --now rounds
Commands find it with the token:
  ROUNDS_API_TOKEN_FILE=/etc/rounds/api-token rounds stats
END
