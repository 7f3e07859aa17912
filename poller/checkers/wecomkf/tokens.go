package wecomkf

import (
	"context"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// Tokens keeps access tokens, sealed, and the pauses of corporations, for all
// that share it. A *circulate.Ring is one for all replicas of a namespace, and its
// methods say what they do; NewMemory makes one for a single process.
type Tokens interface {
	TakeCredential(ctx context.Context, ref circulate.CredentialRef, lease time.Duration) (circulate.Credential, error)
	SettleCredential(ctx context.Context, ref circulate.CredentialRef, fence int64, s circulate.CredentialSettlement) (bool, error)
	DropCredential(ctx context.Context, ref circulate.CredentialRef, version int64) (bool, error)
	PauseOwner(ctx context.Context, owner, reason string, memory time.Duration, steps ...time.Duration) (time.Duration, error)
}

var _ Tokens = (*circulate.Ring)(nil)
