//go:build race

package feed

import "github.com/rounds-dev/rounds/testing/hostile"

// fullSize is a quarter of the most bytes of an answer, because the race detector takes ten
// times as long. The end-to-end tests send answers of full size to the binary.
const fullSize = hostile.Size / 4
