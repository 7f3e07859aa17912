#!/usr/bin/env bash
#
# Runs what takes too long for every change: each fuzz target for a minute, 25,000 mutated requests against the API, others every
# day, every rule broken in turn, every published search of the protocol, the suite of all stores of files on a real S3
# server, 100,000 files that are kept in a directory and there, the conformance suite behind Sentinels, every kind's sends while
# Redis fails at every point of one, a real process on a full Redis, a night of simulated replicas, every fault of chaos, ten
# minutes under every error of third parties, the tests that testing/run.sh runs without the race detector with it, mails and
# feeds that others wrote for tests of theirs, an identity provider that others wrote, the newest Redis and Valkey of the
# distribution, a hundred kills of a service that keeps everything itself, a release that is made twice and tried, two
# versions side by side, and the Helm chart, rendered by Helm itself.
#
#   testing/nightly.sh               all of it, in about two hours
#   testing/nightly.sh --for 10s     each fuzz target for so long
#   testing/nightly.sh --release     only the release, and the version before beside this one
#   testing/nightly.sh --list        only name the fuzz targets: package and name
#   testing/nightly.sh NAME...       only the fuzz targets whose package or name has NAME in it
#   testing/nightly.sh --server PATH only the tests that use Redis, against another server, such
#                                    as valkey-server; may be given several times. "newer" stands
#                                    for what testing/newer.sh finds: the distribution's newest
#
# The targets are found in the source, so that none is forgotten. One that fails leaves what
# it failed with in its package's testdata/fuzz, where testing/run.sh finds it from then on:
# keep that with what mends it.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for=1m
requests=25000
only=()
servers=()
release=
# What keeps its state in Redis: the conformance suite, what is built on the ring, and sends while
# Redis fails.
stores=(./circulate/... ./accounts ./cmd/rounds/message ./cmd/rounds/backup ./monitor ./poller/delivery ./poller/checkers)

usage() { sed -n '3,23s/^# \{0,1\}//p' testing/nightly.sh; }

# targets prints each fuzz target: its package and its name.
targets() {
	find . -name '*_test.go' -not -path '*/.*' -not -path '*/testdata/*' -exec grep -H -o -E '^func Fuzz[A-Za-z0-9_]*' {} + |
		sed -E 's|^(.*)/[^/]*:func (Fuzz.*)$|\1 \2|' | LC_ALL=C sort
}

while [ $# -gt 0 ]; do
	case $1 in
	--for)
		for=${2:?"--for wants a duration such as 1m"}
		shift
		;;
	--server)
		servers+=("${2:?"--server wants the path of a server"}")
		shift
		;;
	--release) release=only ;;
	--list)
		targets
		exit 0
		;;
	-h | --help)
		usage
		exit 0
		;;
	-*)
		usage >&2
		printf 'testing/nightly.sh: unknown argument %s\n' "$1" >&2
		exit 1
		;;
	*) only+=("$1") ;;
	esac
	shift
done

# wanted tells whether a target is meant.
wanted() {
	[ ${#only[@]} -gt 0 ] || return 0
	local name
	for name in "${only[@]}"; do
		case $1 in *"$name"*) return 0 ;; esac
	done
	return 1
}

failed=()
run() {
	printf '\n== %s\n' "$1"
	shift
	"$@" || failed+=("$*")
}

# served runs the tests that use Redis against other servers. "newer" stands for the newest that
# the distribution has, which go again afterwards.
served() {
	local folder='' list server
	local -a all=()
	for server in "$@"; do
		if [ "$server" != newer ]; then
			all+=("$server")
			continue
		fi
		folder=$(mktemp -d)
		if list=$(testing/newer.sh "$folder"); then
			mapfile -t -O ${#all[@]} all <<<"$list"
		else
			failed+=("testing/newer.sh")
		fi
	done
	for server in ${all[@]+"${all[@]}"}; do
		command -v "$server" >/dev/null || {
			printf 'testing/nightly.sh: there is no server %s\n' "$server" >&2
			failed+=("$server")
			continue
		}
		run "$("$server" --version)" env ROUNDS_TEST_REQUIRE_REDIS=1 ROUNDS_TEST_REDIS_SERVER="$server" go test -count=1 -tags night "${stores[@]}"
	done
	[ -z "$folder" ] || rm -rf "$folder"
}

if [ ${#servers[@]} -gt 0 ]; then
	served "${servers[@]}"
	if [ ${#failed[@]} -gt 0 ]; then
		printf 'failed: %s\n' "${failed[@]}" >&2
		exit 1
	fi
	exit 0
fi

# need installs a program that is missing, by apt-get where that is possible.
need() {
	command -v "$1" >/dev/null && return
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	"${root[@]}" apt-get update -qq && "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1"
}

# released makes a release twice, in different folders. Both must be the same, byte by byte,
# and one is installed and run.
released() {
	local first second tried=0
	first=$(mktemp -d) second=$(mktemp -d)
	need rpm && need redis-server && testing/release.sh --out "$first" && testing/release.sh --out "$second" && diff -r "$first" "$second" &&
		echo "both releases are the same, byte by byte" && go run -C testing/release . try "$first" || tried=1
	rm -rf "$first" "$second"
	return $tried
}

# watched has the race detector watch what testing/run.sh runs without it. Some of these packages
# are modules of their own.
watched() {
	local folder ran=0 bad=0
	while read -r folder; do
		ran=1
		ROUNDS_TEST_RACE_ALL=1 go test -C "$folder" -race -count=1 -timeout 30m . </dev/null || bad=1
	done < <(grep -rl --include='*_test.go' 'processes\.\(Apart\|Watched\)(' . | xargs -n 1 dirname | sort -u)
	[ $ran -eq 1 ] && return $bad
}

# linted runs the linter that testing/run.sh names over all modules, with the tests of the night, which
# that leaves out: they would be compiled for the linter alone.
linted() {
	local work golangci modules bad=0
	work=$(mktemp -d)
	golangci=$(sed -n 's/^golangci=\([^ ]*\).*/\1/p' testing/run.sh)
	eval "$(grep '^modules=(' testing/run.sh)"
	(
		export GOWORK=$work/go.work GOBIN=$work
		# shellcheck disable=SC2046 # folders
		GOWORK=off go install "$golangci" && go work init $(sed -n 's/^go work init //p' testing/run.sh) && "$work/golangci-lint" run --build-tags night "${modules[@]}" ./...
	) || bad=1
	rm -rf "$work"
	return $bad
}

# upgraded has the version that was released last and this one run side by side.
upgraded() { need redis-server && go run ./testing/upgrade; }

# mailed has the mails of Python's own tests read, and compares with what Python reads in
# them. They come from the distribution's package, and nothing of them stays.
mailed() {
	local folder package bad=0 root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	folder=$(mktemp -d)
	need python3 && "${root[@]}" apt-get update -qq &&
		package=$(apt-cache pkgnames libpython3. | grep -- '-testsuite$' | sort -V | tail -n 1) &&
		(cd "$folder" && apt-get download -qq "$package" && dpkg-deb -x ./*.deb . && mkdir mails && cp usr/lib/python3*/test/test_email/data/msg_*.txt mails) &&
		ROUNDS_TEST_MAILS=$folder/mails go test -count=1 ./poller/checkers/email -run TestCorpus || bad=1
	rm -rf "$folder"
	return $bad
}

# fed has the feeds of feedparser's own tests read. They come from the distribution's source
# package, and nothing of them stays.
fed() {
	local folder apt bad=0
	folder=$(mktemp -d)
	mkdir -p "$folder/parts" "$folder/lists/partial"
	sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/*.sources >"$folder/parts/src.sources" 2>/dev/null
	sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$folder/parts/src.list" 2>/dev/null
	apt=(apt-get -qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$folder/parts" -o "Dir::State::Lists=$folder/lists")
	(cd "$folder" && "${apt[@]}" update && "${apt[@]}" source --download-only feedparser && tar xzf feedparser_*.orig.tar.gz --strip-components 1 &&
		cd "$OLDPWD" && ROUNDS_TEST_FEEDS=$folder/tests go test -count=1 ./poller/checkers/feed -run TestCorpus) || bad=1
	rm -rf "$folder"
	return $bad
}

# signed has people sign in and out with an identity provider that others wrote, as npm has it.
signed() {
	local folder bad=0
	folder=$(mktemp -d)
	need node && need npm && npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" oidc-provider@9.13.3 &&
		ROUNDS_TEST_OIDC_PROVIDER=$folder/node_modules go test -count=1 ./cmd/rounds/signin -run TestRealProvider || bad=1
	rm -rf "$folder"
	return $bad
}

# analyzed has a Parquet file read by DuckDB, as npm has it.
analyzed() {
	local folder bad=0
	folder=$(mktemp -d)
	need node && need npm && npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" @duckdb/node-api@1.5.6-r.1 &&
		ROUNDS_TEST_DUCKDB=$folder/node_modules go test -count=1 ./poller/delivery/parquet -run TestDuckDB || bad=1
	rm -rf "$folder"
	return $bad
}

if [ -n "$release" ]; then
	run "a release, twice" released
	run "two versions side by side" upgraded
	[ ${#failed[@]} -eq 0 ]
	exit
fi
if [ ${#only[@]} -eq 0 ]; then
	run "a release, twice" released
	run "two versions side by side" upgraded
	seed=$(($(date +%s) / 86400))
	run "the linter, over the tests of the night too" linted
	run "corpus, seed $seed" go test -count=1 ./testing/corpus -run TestCorpus -args -corpus.requests "$requests" -corpus.seed "$seed"
	run "rules in Go, each broken" go test -count=1 -tags night -timeout 40m ./testing/mutants
	run "rules in scripts, each broken" go test -count=1 -tags night ./circulate ./testing/explore -run '^TestMut'
	run "every published search" go run ./testing/explore --published testing/README.md --check
	run "simulated replicas, seeds that failed before" go test -count=1 -tags night -timeout 30m ./testing/simulate
	run "simulated replicas, seed $seed" go run ./testing/simulate --seeds "$seed-$((seed + 9))" --hours 6
	run "a service of which chaos must find that it doubles sends" env -C testing/chaos go test -count=1 -tags night -run '^TestADoubledSendIsFound$' .
	run "the dashboard at more widths, while a poller is killed, and with 300,000 accounts" env -C testing/browser go test -count=1 -tags night .
	run "every fault of chaos, seed $seed" go run -C testing/chaos . --for 10m --seed "$seed"
	run "a service of which soak must find that it doubles sends" go test -count=1 -tags night ./testing/soak -run '^TestADoubledSendIsFound$'
	run "a mail server of which soak must find that it hides and doubles mails" go test -count=1 -tags night ./testing/soak -run '^TestSpoiledMailIsFound$'
	run "ten minutes of errors" go run ./testing/soak --for 10m --seed "$seed"
	run "with the race detector" watched
	run "files in a bucket of a real S3 server" env -C testing/s3 go test -count=1 -tags night .
	run "a Parquet file in DuckDB" analyzed
	run "messages in a real NATS server" env -C testing/brokers go test -count=1 -tags night .
	run "traces in a real collector" env -C testing/otel go test -count=1 -tags night .
	run "100,000 files" go run ./testing/bench files
	run "the Helm chart, as Helm renders it" go run -C testing/kubernetes/helm .
	run "a day of pollers that KEDA scales" env -C testing/kubernetes go test -count=1 -tags night .
	run "mails of others" mailed
	run "feeds of others" fed
	run "an identity provider of others" signed
	run "the conformance suite behind Sentinels" go test -count=1 -tags night ./circulate -run '^TestRingBehindSentinels$'
	run "sends of every kind while Redis fails" go test -count=1 -tags night ./poller/checkers -run '^TestNoKindDoublesASendWhereverRedisForgets$'
	served newer
	run "a real process on a full Redis" go test -C testing/endtoend -count=1 -tags night . -run '^(TestThirdPartyThatAlwaysHasMoreStopsNobody|TestSlowCheckWhileShardsChangeOnAFullRedis)$'
	run "a hundred kills" env DATA_KILLS=100 go test -C testing/endtoend -count=1 . -run "TestKilledProcess(GoesOn|KeepsWhatItAcknowledged)"
fi
ran=0
while read -r package name; do
	wanted "$package $name" || continue
	ran=$((ran + 1))
	run "$package $name" go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$for" -fuzzminimizetime 10s </dev/null
done < <(targets)

printf '\n%d fuzz targets, %d s in all\n' "$ran" "$SECONDS"
if [ "$ran" -eq 0 ]; then
	echo "testing/nightly.sh: no fuzz target is named so" >&2
	exit 1
fi
if [ ${#failed[@]} -gt 0 ]; then
	printf 'failed: %s\n' "${failed[@]}" >&2
	exit 1
fi
