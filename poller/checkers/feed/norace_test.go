//go:build !race

package feed

import "github.com/rounds-dev/rounds/testing/hostile"

// fullSize is as long as an answer may be.
const fullSize = hostile.Size
