package token

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rounds-dev/rounds/circulate/credential"
	"github.com/rounds-dev/rounds/poller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Tokens in the memory of a process behave as those in the ring, which ringtest describes.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ref := NewMemory(), credential.Ref{Owner: "o", Name: "n"}
		take := func() credential.Known {
			t.Helper()
			c, err := m.Take(t.Context(), ref, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		settle := func(want bool, fence int64, value string) {
			t.Helper()
			s := credential.Settlement{As: credential.Fetched, Value: []byte(value), For: time.Hour, Refresh: 50 * time.Minute}
			if got, err := m.Settle(t.Context(), ref, fence, s); err != nil || got != want {
				t.Errorf("settle: %t, %v", got, err)
			}
		}
		first := take()
		settle(false, first.Fence+1, "forged")
		time.Sleep(time.Minute)
		second := take()
		settle(false, first.Fence, "late")
		settle(true, second.Fence, "one")
		settle(false, second.Fence, "again")
		if c := take(); string(c.Value) != "one" || c.Fence != 0 || c.Expires != time.Hour {
			t.Errorf("got %+v", c)
		}
		time.Sleep(50 * time.Minute)
		if c, other := take(), take(); c.Fence == 0 || string(c.Value) != "one" || other.Fence != 0 || string(other.Value) != "one" || other.Wait != time.Minute {
			t.Errorf("time to replace it: %+v, %+v", c, other)
		}
		time.Sleep(10 * time.Minute)
		if c := take(); c.Value != nil || c.Fence == 0 {
			t.Errorf("expired: %+v", c)
		}
	})
}

// grant is a Grant that never fails. The tests of package wecomkf, in which many replicas ask, watch
// the failures.
type grant struct{ *Key }

func (grant) Failure(string, time.Duration) *poller.CheckError { return nil }
func (grant) Stays() *poller.CheckError                        { return nil }

// A refused token is not used again, even if a check that asked before the refusal copies it late.
func TestRefusedTokenThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, err := NewKey("secret", "test", "owner")
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		b := NewBroker(NewMemory(), func(context.Context, grant) Fetched {
			n++
			return Fetched{Token: fmt.Sprint("token ", n), Use: time.Hour, Refresh: time.Hour}
		})
		old, failed := b.Token(t.Context(), grant{key}, 0)
		if failed != nil {
			t.Fatal(failed)
		}
		b.Drop(t.Context(), grant{key}, old.Version)
		b.copy(key.Ref(), old, time.Hour)
		if got, failed := b.Token(t.Context(), grant{key}, old.Version); failed != nil || got.Version == old.Version || got.Value != "token 2" {
			t.Errorf("got %+v, %v", got, failed)
		}
	})
}

// A process keeps a bounded number of tokens, however many owners it serves.
func TestTheNumberOfTokensIsBounded(t *testing.T) {
	b := NewBroker[grant](NewMemory(), nil)
	const all = 2*mostCopies + 1
	ref := func(n int) credential.Ref { return credential.Ref{Owner: "o", Name: fmt.Sprint(n)} }
	held := func() (n int) {
		for i := range all {
			if _, ok := b.copies.Get(ref(i)); ok {
				n++
			}
		}
		return n
	}
	for n := range all {
		b.copy(ref(n), Token{"t", 1}, time.Hour)
		_, ok := b.copies.Get(ref(n))
		if !ok || n%mostCopies < 2 && held() > mostCopies {
			t.Fatalf("token %d: known %t, %d are held", n, ok, held())
		}
	}
}
