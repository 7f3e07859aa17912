package redistest

import (
	"sync"

	lua "github.com/yuin/gopher-lua"

	"github.com/rounds-dev/rounds/circulate/connect"
)

const (
	// leanValues is how many values the scripts of an embedded server may hold at once in
	// tests. It is half of what they may hold in the product.
	leanValues = 2560
	// leanCalls is how deep their functions may call each other, a quarter likewise. None
	// calls itself.
	leanCalls = 64
)

// lean makes each script's memory smaller, once. The interpreter takes a new one for every
// script, 100 KiB in the product, and the race detector marks every byte of it twice: a
// fifth of what tests on the embedded server cost. A script that needs more than this fails.
var lean = sync.OnceFunc(func() { lua.RegistrySize, lua.CallStackSize = leanValues, leanCalls })

// NewEmbedded starts an embedded server whose scripts have less memory than in the product.
// The caller closes it.
func NewEmbedded() *connect.Embedded {
	lean()
	return connect.NewEmbedded()
}
