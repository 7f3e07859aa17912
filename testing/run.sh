#!/usr/bin/env bash
#
# Runs everything that a change must pass: formatting, vet, golangci-lint, and all
# tests with the race detector, against the embedded Redis and a real one; of all
# modules in testing as well.
#
#   testing/run.sh            does without what cannot be installed, and says so
#   testing/run.sh --strict   fails there; so it is where CI is set
#
# Arguments behind -- go to "go test":  testing/run.sh -- -run TestClaim ./circulate/...
#
# ROUNDS_TEST_REDIS_SERVER names another server to test against, such as valkey-server:
# a name in PATH, or a path. "newer" is the newest Redis that the distribution has in any suite.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

golangci=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 # staticcheck is in it
# Modules of their own, so that a program that embeds rounds does not inherit what only they
# need. They are tested with all else. What takes longest and waits most begins first: others
# have the processor meanwhile.
modules=(./testing/soak ./testing/simulate ./testing/endtoend ./testing/chaos ./testing/browser/... ./testing/release/... ./testing/bench/peers/... ./testing/s3 ./testing/brokers ./testing/kubernetes/...)

usage() { sed -n '3,13s/^# \{0,1\}//p' testing/run.sh; }
say() { printf '\n== %s\n' "$*"; }
die() {
	printf 'testing/run.sh: %s\n' "$*" >&2
	exit 1
}

strict=${CI:+yes}
while [ $# -gt 0 ]; do
	case $1 in
	--strict) strict=yes ;;
	-h | --help)
		usage
		exit 0
		;;
	--)
		shift
		break
		;;
	*)
		usage >&2
		die "unknown argument $1"
		;;
	esac
	shift
done

# as_root runs a command as root if that is possible without asking anyone.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		sudo -n "$@"
	elif command -v sudo >/dev/null && [ -t 0 ]; then
		echo "sudo is needed for: $*"
		sudo "$@"
	else
		echo "root is needed for: $*" >&2
		return 1
	fi
}

# install installs the first argument by apt-get, or else the second by dnf, the
# third by apk, the fourth by brew.
install() {
	if command -v apt-get >/dev/null; then
		as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
	elif command -v dnf >/dev/null; then
		as_root dnf install -y -q "$2"
	elif command -v apk >/dev/null; then
		as_root apk add --quiet "$3"
	elif command -v brew >/dev/null; then
		brew install --quiet "$4"
	else
		echo "no package manager that this script knows (apt-get, dnf, apk, brew)" >&2
		return 1
	fi
}

install_redis() {
	install redis-server redis redis redis || { command -v dnf >/dev/null && as_root dnf install -y -q valkey-compat-redis; }
}

# browser finds the browser as testing/browser does.
browser() {
	local name
	for name in chromium-headless-shell headless_shell /usr/lib64/chromium-browser/headless_shell chromium chromium-browser google-chrome google-chrome-stable; do
		command -v "$name" && return
	done
	return 1
}

install_browser() {
	install chromium-headless-shell chromium-headless chromium chromium || { command -v apt-get >/dev/null && install chromium; }
}

# postgres_bin gives where a PostgreSQL is, in PATH or where testing/pgtest looks beside it.
postgres_bin() {
	local path
	for path in "$(command -v postgres || true)" /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres \
		/usr/libexec/postgresql*/postgres /opt/homebrew/opt/postgresql*/bin/postgres /usr/local/opt/postgresql*/bin/postgres; do
		if [ -x "$path" ] && [ -x "$(dirname "$path")/initdb" ]; then
			echo "$path"
			return
		fi
	done
	return 1
}

# dovecot_path gives where a Dovecot is, as testing/dovecottest looks for it.
dovecot_path() {
	local path
	for path in dovecot /usr/sbin/dovecot /usr/local/sbin/dovecot /opt/homebrew/sbin/dovecot; do
		command -v "$path" && return
	done
	return 1
}

# exim_path gives where an Exim is, as testing/eximtest looks for it.
exim_path() {
	local path
	for path in exim4 exim /usr/sbin/exim4 /usr/sbin/exim /opt/homebrew/sbin/exim; do
		command -v "$path" && return
	done
	return 1
}

# compiler tells whether Go finds a C compiler that works, which the race detector needs.
compiler() {
	local cc
	read -r -a cc <<<"$(go env CC)"
	echo 'int main(void) { return 0; }' | "${cc[@]}" -x c -o /dev/null - 2>/dev/null
}

# installed installs the linter into the work folder. It is compiled from source, as the
# one that is released is not to be had everywhere. What costs nothing while it runs is not
# optimized. The rest is compiled as tests compile the program, so that Go's library
# is compiled once for both.
installed() {
	GOBIN=$work CGO_ENABLED=0 go install -trimpath '-gcflags=github.com/...=-N -l' '-ldflags=-s -w' "$golangci"
}

# compiled compiles packages and their tests with the tests' flags, which the linter and the tests need.
compiled() { go list -export -test -deps "${flags[@]}" "$@" >/dev/null; }

# linted runs the linter over folders, with what tests have compiled, and gives way to them.
linted() { GOGC=400 GOFLAGS="${GOFLAGS:-} ${flags[*]}" nice "$work/golangci-lint" run "$@"; }

# tested runs "go test" and keeps what it prints. Garbage is collected a quarter as often:
# with the race detector that is a fifth of the processor's time. The linter vets.
# Many tests wait more than they compute, so more programs run than there are processors.
# Stack traces name lines without what -w leaves out, which is for debuggers.
tested() {
	GOGC=400 go test "${flags[@]}" -count=1 -vet=off -ldflags=-w -p "$(($(getconf _NPROCESSORS_ONLN) + 2))" "$@" 2>&1 | tee -a "$log"
}

# slowest prints the packages that took longest.
slowest() {
	say "the ten slowest packages, in seconds"
	awk '$1 == "ok" && $3 ~ /^[0-9.]+s$/ { print substr($3, 1, length($3) - 1), $2 }' "$log" | sort -rn | head -n 10 || true
}

# elapsed prints how long it all took so far, and how much the processors did.
elapsed() {
	printf '\n%d s so far, of the processors: ' "$SECONDS"
	times >"$work/times" # in a pipe it would be another shell's
	tail -n 1 "$work/times"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v go >/dev/null || die "go is needed: https://go.dev/dl"

if [ "${ROUNDS_TEST_REDIS_SERVER:-}" = newer ]; then
	say "unpacking the newest redis-server of the distribution beside the system"
	ROUNDS_TEST_REDIS_SERVER=$(testing/newer.sh "$work/newer" redis-server) || die "there is no newer redis-server"
	export ROUNDS_TEST_REDIS_SERVER
fi
redis=${ROUNDS_TEST_REDIS_SERVER:-redis-server} # what testing/redistest starts
if command -v "$redis" >/dev/null; then
	say "$("$redis" --version)"
elif [ -n "${ROUNDS_TEST_REDIS_SERVER:-}" ]; then
	die "ROUNDS_TEST_REDIS_SERVER: there is no $redis"
else
	say "installing redis-server, which the tests start on ports of their own"
	if ! install_redis || ! command -v redis-server >/dev/null; then
		[ -z "$strict" ] || die "redis-server cannot be installed: install it and try again"
		echo "redis-server cannot be installed: tests against a real Redis are skipped"
	fi
fi
if postgres=$(postgres_bin); then
	say "$("$postgres" --version)"
else
	say "installing postgresql, which the tests start on ports of their own"
	if ! install postgresql postgresql-server postgresql postgresql || ! postgres_bin >/dev/null; then
		[ -z "$strict" ] || die "postgresql cannot be installed: install it and try again"
		echo "postgresql cannot be installed: tests that need it will fail"
	fi
fi
if dovecot=$(dovecot_path); then
	say "Dovecot $("$dovecot" --version)"
else
	say "installing dovecot, which the tests start on ports of their own"
	if ! install dovecot-imapd dovecot dovecot dovecot || ! dovecot_path >/dev/null; then
		[ -z "$strict" ] || die "dovecot cannot be installed: install it and try again"
		echo "dovecot cannot be installed: tests that need it will fail"
	fi
fi
if exim=$(exim_path); then
	say "$("$exim" --version | head -n 1)"
else
	say "installing exim, which the tests start on ports of their own"
	if ! install exim4-daemon-light exim exim exim || ! exim_path >/dev/null; then
		[ -z "$strict" ] || die "exim cannot be installed: install it and try again"
		echo "exim cannot be installed: tests that need it will fail"
	fi
fi
if ! command -v python3 >/dev/null; then
	say "installing python3, for a connector in deployments/examples"
	if ! install python3 python3 python3 python3 || ! command -v python3 >/dev/null; then
		[ -z "$strict" ] || die "python3 cannot be installed: install it and try again"
		echo "python3 cannot be installed: the connector in Python is not tested"
	fi
fi
if ! command -v node >/dev/null; then
	say "installing nodejs, for a connector in deployments/examples"
	if ! install nodejs nodejs nodejs node || ! command -v node >/dev/null; then
		[ -z "$strict" ] || die "nodejs cannot be installed: install it and try again"
		echo "nodejs cannot be installed: the connector in Node is not tested"
	fi
fi
if browser=$(browser); then
	say "$("$browser" --version)"
else
	say "installing chromium-headless-shell, in which the tests look at the dashboard"
	if ! install_browser || ! browser >/dev/null; then
		[ -z "$strict" ] || die "chromium-headless-shell cannot be installed: install it and try again"
		echo "chromium-headless-shell cannot be installed: the dashboard is not tested in a browser"
	fi
fi
# Nobody debugs these programs: a seventh of the compiler's work is what debuggers read.
own='-gcflags=github.com/rounds-dev/...=-dwarf=false'
race=yes
if ! compiler; then
	say "installing a C compiler, for the race detector"
	if ! install build-essential gcc build-base gcc || ! compiler; then
		[ -z "$strict" ] || die "no C compiler can be installed: install one and try again"
		echo "no C compiler can be installed: the tests run without the race detector"
		race=
	fi
fi
flags=("$own" -trimpath) # without paths, what another checkout has compiled counts here, too
if [ -n "$race" ]; then
	# All code is watched but the interpreter of Lua, another's and used by one goroutine at a
	# time: a third of what tests on the embedded Redis cost. A package with generic functions
	# must not be left out, for others may be linked with its copies of them.
	flags+=(-race '-gcflags=github.com/yuin/gopher-lua/...=-race=false')
	export GORACE=atexit_sleep_ms=50 # each program waits for a second at its end by default
	export CGO_ENABLED=1 # an environment that forbids it forbids the race detector
fi
if [ -n "$strict" ]; then
	export ROUNDS_TEST_REQUIRE_REDIS=1 # a skipped test is a failed one
fi

# The modules are one workspace for this run alone. A file in the checkout would make every go
# command of a newcomer read what only the tests need.
export GOWORK=$work/go.work
go work init . testing/endtoend testing/chaos testing/browser testing/release testing/bench/peers testing/s3 testing/brokers testing/kubernetes

say gofmt
unformatted=$(find . -name '*.go' -not -path '*/.*' -not -path '*/testdata/*' -exec gofmt -l {} +)
[ -z "$unformatted" ] || die "not formatted:
$unformatted"

say "compiling the linter, the tests, and what tests build without the race detector"
installed
compiled "${modules[@]}" ./...
export GOFLAGS="${GOFLAGS:-} $own" # for what tests build
CGO_ENABLED=0 go list -export -deps -trimpath ./... >/dev/null # as package testing/processes does; nothing is linked
elapsed
compiling=$SECONDS

# Tests wait often enough for the linter to run beside them.
linted "${modules[@]}" ./... >"$work/lint" 2>&1 &
linter=$!

log=$work/log
failed=
say go test
if [ $# -eq 0 ]; then
	tested "${modules[@]}" ./... || failed=yes
else
	tested "$@" || failed=yes
fi
slowest
say "golangci-lint, go vet and staticcheck among it"
clean=yes
wait "$linter" || clean=
cat "$work/lint"
elapsed
echo "$compiling s of them until all was compiled"
[ -n "$clean" ] || die "the linter has found something"
[ -z "$failed" ] || die "tests failed"

say "all passed"
