package group

import (
	"fmt"
	"testing"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

func TestLostLeaseIsCertain(t *testing.T) {
	if err := fmt.Errorf("read, shard 3: %w", ErrLeaseLost); wire.Unknown(err) || wire.Unavailable(err) {
		t.Errorf("%v: unknown %v, unavailable %v", err, wire.Unknown(err), wire.Unavailable(err))
	}
}
