#!/usr/bin/env bash
#
# Makes a release of a commit: static binaries for linux, darwin and windows on amd64 and
# arm64 in archives, .deb and .rpm for linux, a bill of materials (CycloneDX) for each
# binary, and SHA256SUMS. The same commit and tags make the same bytes, wherever it runs.
#
#   testing/release.sh                   of HEAD, into dist/VERSION
#   testing/release.sh --commit v1.2.3   of another commit or tag
#   testing/release.sh --out DIR         into another folder, which is empty or does not exist
#   testing/release.sh --only linux/amd64    this platform alone; may be repeated
#
# What is not committed is left out. The version is the commit's tag, or made of its time and
# hash as Go does. The Go toolchain is the Dockerfile's. It fetches modules, and works offline
# where they were fetched before.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The last version without msix, whose library not every module proxy has.
nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)

usage() { sed -n '3,14s/^# \{0,1\}//p' testing/release.sh; }
say() { printf '\n== %s\n' "$*"; }
die() {
	printf 'testing/release.sh: %s\n' "$*" >&2
	exit 1
}

commit=HEAD
out=
only=()
while [ $# -gt 0 ]; do
	case $1 in
	--commit | --out | --only)
		[ $# -gt 1 ] || die "$1 wants a value"
		case $1 in
		--commit) commit=$2 ;;
		--out) out=$2 ;;
		--only) only+=("$2") ;;
		esac
		shift
		;;
	-h | --help)
		usage
		exit 0
		;;
	*)
		usage >&2
		die "unknown argument $1"
		;;
	esac
	shift
done
for platform in "${only[@]}"; do
	case " ${platforms[*]} " in
	*" $platform "*) ;;
	*) die "--only $platform: must be one of ${platforms[*]}" ;;
	esac
done
[ ${#only[@]} -eq 0 ] || platforms=("${only[@]}")

command -v go >/dev/null || die "go is needed: https://go.dev/dl"
command -v git >/dev/null || die "git is needed: the version is made of the commit"
git rev-parse --git-dir >/dev/null 2>&1 || die "this is no git repository: the version is made of the commit"
[ "$(git rev-parse --is-shallow-repository)" = false ] ||
	die "this clone is shallow: the version may be made of an earlier tag (git fetch --unshallow --tags)"
hash=$(git rev-parse --verify --quiet "$commit^{commit}") || die "--commit $commit: there is no such commit"
if [ -n "$out" ]; then
	[ ! -e "$out" ] || [ -z "$(ls -A "$out")" ] || die "--out $out: is not empty"
	mkdir -p "$out"
	out=$(cd "$out" && pwd)
fi

# Only what the commit holds is built, in a clone without changes.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
top=$PWD
git clone --quiet --no-checkout "$top" "$scratch/source"
cd "$scratch/source"
git checkout --quiet --detach "$hash"

# Nothing of the caller's surroundings gets into what is made.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C GOWORK=off GOFLAGS=-mod=readonly GOEXPERIMENT= GOAMD64=v1 GOARM64=v8.0 GOFIPS140=off
umask 022
GOTOOLCHAIN=go$(sed -n 's/^ARG GO_IMAGE=golang:\([0-9.]*\)-.*/\1/p' deployments/docker/Dockerfile)
export GOTOOLCHAIN
say "commit $hash of $(git log -1 --format=%ci), with $(go version)"

binaries=$scratch/binaries
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	binary=$binaries/${os}_$arch/rounds
	[ "$os" != windows ] || binary=$binary.exe
	echo "building for $platform"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=true -ldflags='-s -w -buildid=' -o "$binary" ./cmd/rounds
done
version=$(go version -m "$binary" | awk '$1 == "mod" { print $3 }')
case $version in
v*+dirty | '(devel)' | '') die "the binaries say that they are ${version:-nothing}, which is no version" ;;
esac
echo "they are $version"
if [ -z "$out" ]; then
	out=$top/dist/$version
	[ ! -e "$out" ] || [ -z "$(ls -A "$out")" ] || die "dist/$version is not empty: remove it, or say --out DIR"
	mkdir -p "$out"
fi

say "archives, bills of materials and packages"
mkdir -p "$scratch/tools"
go build -C testing/release -buildvcs=false -o "$scratch/tools/release" .
"$scratch/tools/release" stage "$binaries/stage"
"$scratch/tools/release" pack "$binaries" "$out"
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	[ "$os" = linux ] || continue
	[ -x "$scratch/tools/nfpm" ] || GOBIN=$scratch/tools go install -buildvcs=false "$nfpm"
	cp "$binaries/linux_$arch/rounds" "$binaries/stage/rounds"
	for packager in deb rpm; do
		VERSION=${version#v} ARCH=$arch STAGE=$binaries/stage "$scratch/tools/nfpm" package --config deployments/packages/nfpm.yaml \
			--packager "$packager" --target "$out/rounds_${version#v}_linux_$arch.$packager"
	done
done
"$scratch/tools/release" sums "$out"
cat "$out/SHA256SUMS"

say "$version is in $out"
ls -l "$out" | awk 'NR > 1 { printf "%10d  %s\n", $5, $9 }'
