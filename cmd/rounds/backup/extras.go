package backup

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/document"
)

// keyLine is a key of the API. Nobody can sign in with it, because it has only a digest of the
// key's text.
type keyLine struct {
	Name    text   `json:"name"`
	Digest  string `json:"digest"`
	Expires int64  `json:"expires,omitempty"` // unix ms; 0: never
	Record  text   `json:"record"`
}

func (l *keyLine) check() error {
	sum, err := hex.DecodeString(l.Digest)
	switch {
	case l.Name == "" || len(l.Name) > document.MaxName:
		return fmt.Errorf("key: name: must have 1 to %d bytes", document.MaxName)
	case err != nil || len(sum) != 32:
		return fmt.Errorf("key %q: digest: must be 64 hexadecimal digits", l.Name)
	case l.Record == "" || len(l.Record) > document.MaxKeyRecord:
		return fmt.Errorf("key %q: record: must have 1 to %d bytes", l.Name, document.MaxKeyRecord)
	}
	return nil
}

// webhookLine is a disabled webhook endpoint.
type webhookLine struct {
	Name   text  `json:"name"`
	Since  int64 `json:"disabled"` // unix ms; 0: unknown
	Reason text  `json:"reason,omitempty"`
}

func (l *webhookLine) check() error {
	if l.Name == "" {
		return errors.New("webhook: has no name")
	}
	return nil
}

// secretLine is a stored secret as it is in Redis: sealed.
type secretLine struct {
	Name   string         `json:"name"`
	Set    int64          `json:"set"` // unix ms
	Record *secret.Record `json:"record"`
}

func (l *secretLine) check() error {
	switch {
	case secret.ValidateFullName(l.Name) != nil:
		return fmt.Errorf("secret: name: %w", secret.ErrName)
	case l.Record == nil || l.Record.Key == "" || len(l.Record.Enc) == 0 || len(l.Record.Sealed) == 0:
		return fmt.Errorf("secret %s: record: is not sealed", l.Name)
	}
	return nil
}

// credentialLine is a credential in a box.
type credentialLine struct {
	Owner   text   `json:"owner"`
	Name    string `json:"name"`    // its digest
	Expires int64  `json:"expires"` // unix ms
	Refresh int64  `json:"refresh"` // unix ms
	secret.Box
}

// about is the additional data of the box.
func (l *credentialLine) about() string { return l.Name + " " + string(l.Owner) }

func (l *credentialLine) check() error {
	if l.Owner == "" || l.Name == "" || l.Key == "" || len(l.Enc) == 0 || len(l.Sealed) == 0 {
		return errors.New("credential: must have owner, name, key, enc and sealed")
	}
	return nil
}

func (w *writer) keys(ctx context.Context, ring *circulate.Ring) error {
	named, err := document.Of(ring).Keys().Named(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		e := named[name]
		l := &keyLine{Name: text(name), Digest: e.Digest, Record: text(e.Record), Expires: milli(e.Expires)}
		if err := w.write(line{Key: l}); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) webhooks(ctx context.Context, ring *circulate.Ring) error {
	disabled, err := ring.Endpoints().All(ctx)
	if err != nil {
		return err
	}
	for _, e := range disabled {
		l := &webhookLine{Name: text(e.Name), Reason: text(e.Reason), Since: milli(e.Since)}
		if err := w.write(line{Webhook: l}); err != nil {
			return err
		}
	}
	return nil
}

// secrets writes the stored secrets. They are sealed for a name and a binding, and not for a
// namespace, so they open in any namespace. A secret that cannot be read is left out, because it
// opens nowhere.
func (w *writer) secrets(ctx context.Context, ring *circulate.Ring) error {
	if w.seal == nil {
		return nil
	}
	shelf := secret.Of(ring)
	for after := ""; ; {
		page, next, err := shelf.Page(ctx, after, secret.MaxPage)
		if err != nil {
			return err
		}
		for _, stored := range page {
			record, stored, found, err := shelf.Get(ctx, stored.Name)
			if errors.Is(err, secret.ErrRecord) || errors.Is(err, secret.ErrName) || err == nil && !found {
				continue
			}
			if err != nil {
				return err
			}
			l := &secretLine{stored.Name, stored.Set.UnixMilli(), record}
			if l.check() != nil {
				continue
			}
			if err := w.write(line{Secret: l}); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

// credentials writes the valid credentials, in boxes. The credentials' owners seal them too, but
// nothing demands that.
func (w *writer) credentials(ctx context.Context, ring *circulate.Ring) error {
	if w.seal == nil {
		return nil
	}
	written := make(map[string]bool) // a credential may be listed again while it is replaced
	for skip := 0; ; {
		kept, passed, err := credential.Of(ring).Values(ctx, skip, credential.MostListed)
		if err != nil {
			return err
		}
		for _, k := range kept {
			l := &credentialLine{Owner: text(k.Owner), Name: k.ID, Expires: k.Expires.UnixMilli(), Refresh: k.Refresh.UnixMilli()}
			if written[l.about()] {
				continue
			}
			written[l.about()] = true
			box, err := w.seal.SealBox(l.about(), k.Value)
			if err != nil {
				return err
			}
			l.Box = *box
			if err := w.write(line{Credential: l}); err != nil {
				return err
			}
		}
		if passed < credential.MostListed {
			return nil
		}
		skip += passed
	}
}

// extra restores a line that belongs to no shard.
func (t *target) extra(ctx context.Context, l *line) error {
	switch {
	case l.Key != nil:
		if t.options.WithoutKeys {
			t.done.WithoutKeys++
			return nil
		}
		return document.Of(t.ring).Keys().Add(ctx, string(l.Key.Name), l.Key.Digest, []byte(l.Key.Record), ofMilli(l.Key.Expires))
	case l.Webhook != nil:
		e := circulate.DisabledEndpoint{Name: string(l.Webhook.Name), Reason: string(l.Webhook.Reason), Since: ofMilli(l.Webhook.Since)}
		return t.ring.Archive().LoadDisabled(ctx, []circulate.DisabledEndpoint{e})
	case l.Secret != nil:
		record, err := plain(l.Secret.Record)
		if err != nil {
			return err
		}
		return document.Of(t.ring).Vault().Restore(ctx, document.Sealed{Name: l.Secret.Name, Set: time.UnixMilli(l.Secret.Set), Value: record})
	}
	if l.Term != nil {
		return l.Term.restore(ctx, t.ring)
	}
	if l.Endpoint != nil {
		return l.Endpoint.restore(ctx, t.ring)
	}
	if l.File != nil {
		return l.File.restore(ctx, t.ring.Files(), t.options.Object)
	}
	return t.credential(ctx, l.Credential)
}

// credential restores a credential if its box opens and it is still valid.
func (t *target) credential(ctx context.Context, l *credentialLine) error {
	if t.options.Open == nil {
		t.done.Unopened++
		return nil
	}
	value, err := t.options.Open(l.about(), &l.Box)
	if err != nil {
		t.done.Unopened++
		return nil
	}
	restored, err := credential.Of(t.ring).Restore(ctx, credential.Kept{
		Owner: string(l.Owner), ID: l.Name, Value: value, Expires: time.UnixMilli(l.Expires), Refresh: time.UnixMilli(l.Refresh),
	})
	if err == nil && !restored {
		t.done.Expired++
	}
	return err
}
