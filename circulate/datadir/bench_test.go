package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

// BenchmarkSave saves 10,000 accounts with ten messages each. It reports for how long all
// commands stand still, which is what a user can notice.
func BenchmarkSave(b *testing.B) {
	const accounts, messages = 10_000, 10
	ctx := b.Context()
	server := connect.NewEmbedded()
	b.Cleanup(func() { _ = server.Close() })
	path := b.TempDir()
	dir, err := Open(ctx, server, Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = dir.lock.Close() })
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 64})
	if err != nil {
		b.Fatal(err)
	}
	for i := range accounts {
		id := fmt.Sprintf("https://feeds.example.com/%d/atom.xml", i)
		record := fmt.Appendf(nil, `{"id":%q,"kind":"feed","config":{"url":%q},"cadence":"every 15m","labels":{"team":"press"}}`, id, id)
		if _, err := ring.Account(id).Register(ctx, circulate.Registration{ID: id, Record: record, Due: time.UnixMilli(1)}); err != nil {
			b.Fatal(err)
		}
	}
	for shard := range ring.Shards() {
		batch, err := ring.Claim(ctx, shard, "replica001", 1000, 0)
		if err != nil {
			b.Fatal(err)
		}
		items := make([]circulate.Return, len(batch.Claims))
		for i := range batch.Claims {
			c := &batch.Claims[i]
			items[i] = circulate.Return{Claim: c, Kind: "feed", Due: time.Now().Add(time.Hour), Cursor: []byte(strings.Repeat("etag", 20))}
			for m := range messages {
				items[i].Messages = append(items[i].Messages, circulate.Message{
					ID: fmt.Sprintf("tag:example.com,2026:%d", m), Type: "entry", Time: time.Now(), Data: fmt.Appendf(nil, `{"title":"%d","summary":%q}`, m, strings.Repeat("word ", 60)),
				})
			}
		}
		if _, err := ring.Return(ctx, shard, items); err != nil {
			b.Fatal(err)
		}
	}
	conn, err := server.Conn(ctx, "")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := dir.Save(); err != nil { // the first reads all messages
		b.Fatal(err)
	}
	var stood, took []time.Duration
	for b.Loop() {
		if _, err := conn.Do("INCR", "changes"); err != nil {
			b.Fatal(err)
		}
		if err := dir.Save(); err != nil {
			b.Fatal(err)
		}
		stood, took = append(stood, dir.State().Stood), append(took, dir.State().Took)
	}
	slices.Sort(stood)
	slices.Sort(took)
	info, err := os.Stat(filepath.Join(path, newestName))
	if err != nil {
		b.Fatal(err)
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	b.ReportMetric(ms(stood[0]), "ms-stood-least") // as on a machine that does nothing else
	b.ReportMetric(ms(stood[len(stood)/2]), "ms-stood-median")
	b.ReportMetric(ms(took[0]), "ms-took-least")
	b.ReportMetric(ms(took[len(took)/2]), "ms-took-median")
	b.ReportMetric(float64(dir.State().Bytes)/1e6, "MB")
	b.ReportMetric(float64(info.Size())/1e6, "MB-file")
}
