package secrets

import (
	"context"
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/secret"
)

// Rotated counts the secrets of a rotation so far.
type Rotated struct {
	Sealed  int      // sealed for the newest key
	Already int      // were sealed for the newest key before
	Changed int      // changed by somebody else in the meantime, and left to the next rotation
	Failed  []string // names of some secrets that none of the keys opens
	Broken  int      // how many such secrets there are
}

const mostFailed = 100

// Rotate seals for the newest key all secrets of a shelf that are sealed for another one, page by
// page, and calls progress after each page. It may be interrupted and run again: finished secrets
// stay finished. It does not change who stored a secret, or when. It leaves a secret that none of
// the keys opens as it is, and names it in Failed.
func Rotate(ctx context.Context, s secret.Shelf, keys Keys, progress func(Rotated)) (Rotated, error) {
	var done Rotated
	newest := keys.Newest()
	if newest == nil {
		return done, errors.New("rotate: there is no key")
	}
	for after := ""; ; {
		page, next, err := s.Page(ctx, after, secret.MaxPage)
		if err != nil {
			return done, err
		}
		for _, stored := range page {
			if stored.Key == newest.ID() {
				done.Already++
				continue
			}
			if err := reseal(ctx, s, keys, stored.Name, &done); err != nil {
				return done, err
			}
		}
		progress(done)
		if next == "" {
			return done, nil
		}
		after = next
	}
}

// reseal seals one secret for the newest key, and counts what became of it.
func reseal(ctx context.Context, s secret.Shelf, keys Keys, name string, done *Rotated) error {
	broken := func() {
		if done.Broken++; len(done.Failed) < mostFailed {
			done.Failed = append(done.Failed, name)
		}
	}
	r, seen, found, err := s.Get(ctx, name)
	switch {
	case errors.Is(err, secret.ErrRecord), errors.Is(err, secret.ErrName): // another program stored it
		broken()
		return nil
	case err != nil:
		return err
	case !found:
		done.Changed++
		return nil
	}
	value, err := keys.open(name, r)
	if err != nil {
		broken()
		return nil
	}
	sealed, err := keys.Newest().Seal(name, r.Binding, r.By, value)
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	same, err := s.Replace(ctx, seen, sealed)
	if err != nil {
		return err
	}
	if same {
		done.Sealed++
	} else {
		done.Changed++
	}
	return nil
}
