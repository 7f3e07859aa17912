#!/bin/sh
# Before the files are removed: the service ends. At an upgrade it goes on, and starts anew
# afterwards. dpkg calls it with "remove" or "upgrade", rpm with 0 or with 1 and more.
set -eu
case "${1:-}" in
remove | deconfigure | 0) ;;
*) exit 0 ;;
esac
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl disable --now rounds.service rounds.socket || true
fi
