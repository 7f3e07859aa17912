package datadir

import (
	"fmt"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

// BenchmarkSteps registers accounts, and checks them one by one with a message each, on an
// embedded server without and with a directory.
func BenchmarkSteps(b *testing.B) {
	for _, kept := range []bool{false, true} {
		open := func(b *testing.B) *circulate.Ring {
			b.Helper()
			server := connect.NewEmbedded()
			b.Cleanup(func() { _ = server.Close() })
			if kept {
				dir, err := Open(b.Context(), server, Options{Path: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				go dir.Run(b.Context())
				b.Cleanup(func() { _ = dir.Close() })
			}
			ring, err := circulate.Open(b.Context(), server, circulate.Options{Shards: 8})
			if err != nil {
				b.Fatal(err)
			}
			return ring
		}
		register := func(b *testing.B, ring *circulate.Ring, n int) {
			b.Helper()
			id := fmt.Sprintf("https://feeds.example.com/%d/atom.xml", n)
			record := fmt.Appendf(nil, `{"id":%q,"kind":"feed","config":{"url":%q},"cadence":"every 15m","labels":{"team":"press"}}`, id, id)
			if _, err := ring.Account(id).Register(b.Context(), circulate.Registration{ID: id, Record: record, Due: time.UnixMilli(1)}); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprintf("register/kept=%v", kept), func(b *testing.B) {
			ring := open(b)
			n := 0
			for b.Loop() {
				register(b, ring, n)
				n++
			}
		})
		b.Run(fmt.Sprintf("check/kept=%v", kept), func(b *testing.B) {
			ring := open(b)
			for n := range 1000 {
				register(b, ring, n)
			}
			n := 0
			for b.Loop() {
				for {
					n++
					batch, err := ring.Claim(b.Context(), n%ring.Shards(), "replica001", 16, 0)
					if err != nil {
						b.Fatal(err)
					}
					if len(batch.Claims) == 0 {
						continue
					}
					items := make([]circulate.Return, len(batch.Claims))
					for i := range batch.Claims {
						items[i] = circulate.Return{Claim: &batch.Claims[i], Kind: "feed", Due: time.UnixMilli(1), Cursor: []byte("a cursor"), Messages: []circulate.Message{
							{ID: fmt.Sprint(n), Type: "entry", Time: time.Now(), Data: []byte(`{"title":"one of many","summary":"a few words about it"}`)},
						}}
					}
					if _, err := ring.Return(b.Context(), n%ring.Shards(), items); err != nil {
						b.Fatal(err)
					}
					break
				}
			}
			b.ReportMetric(16, "checks/op")
		})
	}
}
