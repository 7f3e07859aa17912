//go:build !race

package feed

import "github.com/rounds-dev/rounds/testing/hostile"

// fullSize is the most bytes of an answer.
const fullSize = hostile.Size
