package service

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/poller/secrets"
)

const (
	privateKeys = "ROUNDS_SECRETS_KEY"
	publicKey   = "ROUNDS_SECRETS_PUBLIC_KEY"
)

// sealKeys reads the keys of stored secrets: the keys that open, and the one that
// seals, which is nil if there is none. The error is settings.Faults.
func sealKeys(s settings.Seal) (secrets.Keys, *secret.PublicKey, error) {
	keys, err := secrets.ParseKeys(s.PrivateKeys)
	faults := faultsAbout(privateKeys, "", err)
	public := keys.Newest()
	if s.PublicKey != "" {
		if public, err = secret.ParsePublicKey(s.PublicKey); err != nil {
			faults = append(faults, settings.Fault{Name: publicKey, Reason: err.Error()})
		} else if len(keys) > 0 && !keys.Opens(public) {
			faults = append(faults, settings.Fault{Name: publicKey, Reason: "must be of one of the keys in " + privateKeys + ": nothing here could open what it seals"})
		}
	}
	if len(faults) > 0 {
		return nil, nil, faults
	}
	return keys, public, nil
}

// seals are the stored secrets of a ring's namespace.
type seals struct {
	opener *secrets.Opener
	public atomic.Pointer[secret.PublicKey]
}

func newSeals(ring *circulate.Ring) *seals { return &seals{opener: secrets.New(secret.Of(ring), nil)} }

// take makes secrets be sealed and opened with other keys.
func (s *seals) take(read settings.Settings, _ settings.Lookup) (func(), []string, error) {
	keys, public, err := sealKeys(read.Seal)
	if err != nil {
		return nil, nil, err
	}
	return func() {
		s.opener.SetKeys(keys)
		s.public.Store(public)
	}, nil, nil
}

// RotateSecrets seals all stored secrets of a namespace for the newest of the keys, and
// reports progress. It uses Redis directly, because the API has no key that opens them.
func RotateSecrets(ctx context.Context, s settings.Redis, seal settings.Seal, progress func(secrets.Rotated)) (secrets.Rotated, error) {
	keys, _, err := sealKeys(settings.Seal{PrivateKeys: seal.PrivateKeys})
	if err != nil {
		return secrets.Rotated{}, err
	}
	if len(keys) == 0 {
		return secrets.Rotated{}, errors.New(privateKeys + " must hold the keys, the newest first: that one seals, and all of them open")
	}
	there, err := OpenNamespace(ctx, s, s.Namespace)
	if err != nil {
		return secrets.Rotated{}, err
	}
	done, err := secrets.Rotate(ctx, secret.At(there.server, s.Namespace), keys, progress)
	e := trail.Entry{Action: "rotate-secrets", Outcome: trail.Done, Counts: map[string]int{"sealed": done.Sealed, "failed": done.Broken}}
	if err != nil {
		e.Outcome = trail.Failed
	}
	return done, errors.Join(err, there.AddToTrail(ctx, e), there.Close())
}
