#!/usr/bin/env bash
#
# Unpacks the newest Redis and Valkey that the distribution has in any of its suites into a
# folder, with the libraries that they need, and prints the path of each. Nothing is installed:
# the servers stand beside what the system has, and go with the folder.
#
#   testing/newer.sh DIR                       both
#   testing/newer.sh DIR redis-server          only the one
#   testing/nightly.sh --server newer          has the tests use them
#
# It fails where apt-get is missing, or where it does not know the distribution's suites.

set -euo pipefail

die() {
	printf 'testing/newer.sh: %s\n' "$*" >&2
	exit 1
}

case ${1:-} in
'' | -*)
	sed -n '3,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
	exit 1
	;;
esac
mkdir -p "$1"
top=$(cd "$1" && pwd)
shift
servers=("$@")
[ ${#servers[@]} -gt 0 ] || servers=(redis-server valkey-server)

# sources prints where the distribution has what is newer than its release: one line for
# apt-get each, with the mirror that this system uses.
sources() {
	local suites parts suite mirror id
	id=$(. /etc/os-release && echo "$ID")
	case $id in
	debian) suites='unstable experimental' parts=main ;;
	ubuntu) suites=devel parts='main universe' ;;
	*) die "the suites of $id are not known here" ;;
	esac
	# shellcheck disable=SC2016 # apt-get fills it in
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m 1 -E "/$id(-ports)?/?\$") ||
		die "apt-get names no mirror of $id"
	for suite in $suites; do
		echo "deb [signed-by=/usr/share/keyrings/$id-archive-keyring.gpg] $mirror $suite $parts"
	done
}

# beside runs a program of apt that knows only those suites, and takes nothing for installed, so
# that it fetches the libraries too.
beside() {
	"$1" -o Dir::Etc::SourceList="$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State="$apt" -o Dir::State::Status="$apt/status" -o Dir::Cache="$apt" -o APT::Sandbox::User= -o APT::Install-Recommends=false "${@:2}"
}

# newest prints the highest version of a package.
newest() { beside apt-cache madison "$1" | awk -F ' *[|] *' '{ print $2 }' | sort -V | tail -n 1; }

# unpacked fetches a server and its libraries, unpacks them into a folder of their own, and
# prints the path of a program that runs the server with them.
unpacked() {
	local name=$1 version root deb loader
	version=$(newest "$name")
	[ -n "$version" ] || die "the distribution has no $name"
	root=$top/$name-${version//[^0-9A-Za-z.]/-}
	rm -rf "$apt/archives"
	mkdir -p "$apt/archives/partial" "$root"
	beside apt-get -qq --download-only install -y "$name=$version" "${name%-server}-tools=$version" >&2
	for deb in "$apt"/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
	loader=$(find "$root" -type f -name 'ld-linux*' -print -quit) # its libraries stand beside it
	[ -n "$loader" ] || die "$name came without a loader"
	printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s/usr/bin/%s" "$@"\n' "$loader" "$(dirname "$loader")" "$root" "$name" >"$top/$name"
	chmod +x "$top/$name"
	"$top/$name" --version >&2
	echo "$top/$name"
}

command -v apt-get >/dev/null || die "apt-get is missing"
apt=$(mktemp -d)
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
: >"$apt/status"
sources >"$apt/sources.list"
beside apt-get -qq update >&2
for server in "${servers[@]}"; do unpacked "$server"; done
