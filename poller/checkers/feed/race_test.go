//go:build race

package feed

import "github.com/rounds-dev/rounds/testing/hostile"

// fullSize is as long as an answer may be, but for the race detector, which takes ten times
// as long: the binary is sent whole ones by the end-to-end tests.
const fullSize = hostile.Size / 4
