package circulate

import (
	"fmt"
	"testing"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

// The ring's own findings are no unknown outcomes, and no reason to wait for
// Redis: a program that joins with other settings must not try for ever.
func TestTheRingsOwnFindingsAreCertain(t *testing.T) {
	for _, err := range []error{ErrClaimLost, ErrNotRegistered, ErrParked, ErrMismatch, ErrMalformedEntry, ErrResharding, ErrReshardingOther, ErrNoReturn, ErrAborted, ErrNoGroup, errNotReceiving, wire.ErrReply, wire.ErrInput} {
		if wrapped := fmt.Errorf("claim, shard 3: %w", err); Unknown(wrapped) || Unavailable(wrapped) {
			t.Errorf("%v: unknown %v, unavailable %v", err, Unknown(wrapped), Unavailable(wrapped))
		}
	}
}
