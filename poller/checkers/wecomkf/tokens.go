package wecomkf

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate/credential"
)

// Tokens keeps sealed access tokens and the pauses of corporations, for all checkers
// that share it. A credential.Store implements it for all replicas of a namespace; see
// there for the methods. NewMemory returns one for a single process.
type Tokens interface {
	Take(ctx context.Context, ref credential.Ref, lease time.Duration) (credential.Known, error)
	Settle(ctx context.Context, ref credential.Ref, fence int64, s credential.Settlement) (bool, error)
	Drop(ctx context.Context, ref credential.Ref, version int64) (bool, error)
	PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error)
}

var _ Tokens = credential.Store{}
