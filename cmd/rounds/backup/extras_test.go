package backup

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts/access"
	"github.com/rounds-dev/rounds/accounts/secret"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/circulate/document"
	"github.com/rounds-dev/rounds/cmd/rounds/key"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Everything that lets somebody in somewhere. None of it may be in a file.
const (
	theSecret = "a secret in store 5f2c"
	theToken  = "a token of a third party 77d1"
	theName   = "a name of a credential 31aa"
	theHint   = "a hint that comes with a nudge 9b04"
)

// secretive fills a ring with everything that must not be seen, and returns the text of a key
// of the API.
func secretive(t *testing.T, ring *circulate.Ring, seal *secret.PublicKey) (keyText string) {
	t.Helper()
	ctx := t.Context()
	register(t, ring, "a", nil)
	_, err := ring.Claim(ctx, ring.ShardOf("a"), "replica001", 1, 0)
	must(t, err)
	must(t, ring.Account("a").Nudge(ctx, circulate.Nudge{Hint: []byte(theHint), Lives: time.Hour}))
	_, _, err = secret.Of(ring).Put(ctx, seal, "KF", secret.Binding{Hosts: []string{"api.example.com"}}, "ada", []byte(theSecret))
	must(t, err)
	keyText, _, err = key.NewKeyring(ring, nil).Create(ctx, key.New{Name: "ci", Role: access.Editor, By: "ada"})
	must(t, err)
	must(t, document.Of(ring).Sessions(document.SignedIn).Put(ctx, "a session's name", "ada", []byte("{}"), time.Hour))
	ref := credential.Ref{Owner: "wecom-kf|corp", Name: theName}
	known, err := credential.Of(ring).Take(ctx, ref, time.Minute)
	must(t, err)
	// A kind should seal the credential that it settles. If it forgets that, a backup must still
	// not show the secret.
	held, err := credential.Of(ring).Settle(ctx, ref, known.Fence, credential.Settlement{As: credential.Fetched, Value: []byte(theToken), For: time.Hour, Refresh: time.Minute})
	if err != nil || !held {
		t.Fatal(held, err)
	}
	return keyText
}

func newKey(t *testing.T) secrets.Keys {
	t.Helper()
	k, err := secrets.Generate()
	must(t, err)
	return secrets.Keys{k}
}

func TestNoSecretIsInClear(t *testing.T) {
	server := redistest.Embedded(t)
	ring := open(t, server, "from", 2)
	keys := newKey(t)
	keyText := secretive(t, ring, keys.Newest())
	shared, err := key.NewKeyring(ring, nil).Sealer(t.Context())
	if err != nil || shared == nil {
		t.Fatal(err)
	}
	conn, err := server.Conn(t.Context(), "")
	must(t, err)
	defer conn.Close()
	ofKeys, err := redis.String(conn.Do("GET", "{from:keys}:secret"))
	if err != nil || len(ofKeys) < 16 {
		t.Fatalf("the secret that API processes share: %d bytes, %v", len(ofKeys), err)
	}
	private, err := keys[0].Text()
	must(t, err)
	for _, o := range []Options{{}, {Secrets: keys.Newest()}} {
		var file bytes.Buffer
		counts, err := Write(t.Context(), ring, &file, o)
		must(t, err)
		if want := map[bool]int{true: 1}[o.Secrets != nil]; counts.Secrets != want || counts.Credentials != want || counts.Keys != 1 {
			t.Errorf("with secrets %t: %+v", o.Secrets != nil, counts)
		}
		for _, text := range []string{theSecret, theToken, theName, theHint, keyText, "a session's name", ofKeys, private} {
			for how, coded := range map[string]string{
				"as it is": text, "hex": hex.EncodeToString([]byte(text)),
				"base64": base64.StdEncoding.EncodeToString([]byte(text))[:16], "base64 of URLs": base64.RawURLEncoding.EncodeToString([]byte(text))[:16],
			} {
				if strings.Contains(file.String(), coded) {
					t.Errorf("with secrets %t: %q is in the file, %s", o.Secrets != nil, text, how)
				}
			}
		}
	}
}

func TestKeysWebhooksAndSecretsComeBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		ring := open(t, server, "from", 2)
		keys := newKey(t)
		keyText := secretive(t, ring, keys.Newest())
		_, err := ring.Endpoints().Disable(ctx, "crm", "410 | gone")
		must(t, err)
		disabled, err := ring.Endpoints().All(ctx)
		must(t, err)
		_, stored, _, err := secret.Of(ring).Get(ctx, "KF")
		must(t, err)
		var file bytes.Buffer
		_, err = Write(ctx, ring, &file, Options{Secrets: keys.Newest()})
		must(t, err)
		found, err := Verify(bytes.NewReader(file.Bytes()), nil)
		if err != nil || found.SealedFor[keys.Newest().ID()] != 2 {
			t.Fatalf("%+v, %v", found, err)
		}
		ref := credential.Ref{Owner: "wecom-kf|corp", Name: theName}
		for i, c := range []struct {
			name string
			o    Restoring
			want Restored
		}{
			{"with the private key", Restoring{Open: keys.OpenBox}, Restored{}},
			{"with another", Restoring{Open: newKey(t).OpenBox}, Restored{Unopened: 1}},
			{"with none", Restoring{}, Restored{Unopened: 1}},
			{"without keys", Restoring{Open: keys.OpenBox, WithoutKeys: true}, Restored{WithoutKeys: 1}},
		} {
			to := open(t, server, fmt.Sprint("to", i), 3)
			done, err := Restore(ctx, to, bytes.NewReader(file.Bytes()), c.o)
			c.want.Counts = found.Counts
			if err != nil || done != c.want {
				t.Fatalf("%s: %+v, %v", c.name, done, err)
			}
			if all, err := to.Endpoints().All(ctx); err != nil || !slices.Equal(all, disabled) {
				t.Errorf("%s: disabled %v, %v, want %v", c.name, all, err, disabled)
			}
			_, again, _, err := secret.Of(to).Get(ctx, "KF")
			if err != nil || !again.Set.Equal(stored.Set) || again.By != "ada" {
				t.Errorf("%s: secret %+v, %v, want %+v", c.name, again, err, stored)
			}
			value, binding, err := secrets.New(secret.Of(to), keys).Get(ctx, "KF")
			if err != nil || value != theSecret || !slices.Equal(binding.Hosts, []string{"api.example.com"}) {
				t.Errorf("%s: opened %q, %v, %v", c.name, value, binding, err)
			}
			k, err := key.NewKeyring(to, nil).Authenticate(ctx, keyText)
			if c.o.WithoutKeys != (err != nil) || err == nil && (k.Name != "ci" || k.Role != access.Editor) {
				t.Errorf("%s: key %+v, %v", c.name, k, err)
			}
			known, err := credential.Of(to).Take(ctx, ref, time.Minute)
			want := theToken
			if c.want.Unopened > 0 {
				want = ""
			}
			if err != nil || string(known.Value) != want || (known.Fence == 0) != (want != "") {
				t.Errorf("%s: credential %+v, %v", c.name, known, err)
			}
			if want != "" && (known.Expires < 59*time.Minute || known.Expires > time.Hour) {
				t.Errorf("%s: it expires in %v", c.name, known.Expires)
			}
		}
	})
}

// A group goes on where it was in every shard that inherits. A shard in which nothing happens
// holds none back.
func TestGroupsOfMergedShardsGoOn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := t.Context()
		from := open(t, server, "from", 4)
		for i := range 12 {
			register(t, from, fmt.Sprint("a", i), nil)
		}
		for shard := range from.Shards() {
			_, err := from.Streams().EnsureGroup(ctx, shard, "crm", circulate.StreamStart)
			must(t, err)
		}
		n := 0
		find := func(shard, each int) {
			must(t, checkDue(ctx, from, shard, 100, func(c *circulate.Claim) circulate.Return {
				back := circulate.Return{Claim: c, Kind: "plain"}
				for range each {
					n++
					back.Messages = append(back.Messages, circulate.Message{ID: fmt.Sprint(n)})
				}
				return back
			}))
		}
		read := func(shard, count int, acknowledged bool) {
			if count == 0 {
				return
			}
			key := from.Tag(shard) + ":messages"
			conn, err := server.Conn(ctx, key)
			must(t, err)
			defer conn.Close()
			more := []any{"GROUP", "crm", "c", "COUNT", count}
			if acknowledged {
				more = append(more, "NOACK")
			}
			_, err = conn.Do("XREADGROUP", append(more, "STREAMS", key, ">")...)
			must(t, err)
		}
		for shard := range from.Shards() { // old messages, all read
			find(shard, 1)
			read(shard, 100, true)
		}
		find(0, 2) // two shards go on, one of them with something pending
		read(0, 1, true)
		read(0, 1, false)
		read(0, 100, true)
		find(1, 1)
		read(1, 100, true)
		var file bytes.Buffer
		_, err := Write(ctx, from, &file, Options{})
		must(t, err)
		want := unread(t, from, "crm")
		if len(want) != 1 {
			t.Fatalf("one message is pending: %v", want)
		}
		for _, shards := range []int{4, 1, 3, 8} {
			to := open(t, server, fmt.Sprint("to", shards), shards)
			_, err := Restore(ctx, to, bytes.NewReader(file.Bytes()), Restoring{})
			must(t, err)
			got := unread(t, to, "crm")
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%d shards: not acknowledged are %v, want %v", shards, got, want)
			}
			for shard := range shards {
				if names, err := to.Streams().GroupsOf(ctx, shard); err != nil || !slices.Equal(names, []string{"crm"}) {
					t.Errorf("%d shards: shard %d has groups %v, %v", shards, shard, names, err)
				}
			}
		}
	})
}

// The box of a credential is sealed about its owner as well as its name, so nobody can pass it
// off as that of another account.
func TestCredentialIsSealedAboutItsOwner(t *testing.T) {
	keys := newKey(t)
	one, two := credentialLine{Owner: "one", Name: "token"}, credentialLine{Owner: "two", Name: "token"}
	box, err := keys.Newest().SealBox(one.about(), []byte("value"))
	must(t, err)
	if _, err := keys.OpenBox(one.about(), box); err != nil {
		t.Error(err)
	}
	if value, err := keys.OpenBox(two.about(), box); err == nil {
		t.Errorf("the box of one opens for two: %q", value)
	}
}
