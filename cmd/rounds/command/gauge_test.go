package command

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

func TestGauge(t *testing.T) {
	var out bytes.Buffer
	env := environment{stderr: terminal.NewWriter(&out), isTerminal: func(any) bool { return true }}
	g := newGauge(env)
	now := time.Unix(1000, 0)
	g.line.now = func() time.Time { return now }
	last := func() string {
		text := out.String()
		return text[strings.LastIndex(text, "\x1b[K")+len("\x1b[K"):]
	}
	m := &metered{gauge: g}
	g.begin("backup")
	_, _ = io.WriteString(m, `{"header":{"is":"rounds backup","format":1,"namespace":"n","shards":1,"time":"2026-11-22T10:00:00Z","about":{"accounts":100,"messages":300}}}`+"\n{\"gro")
	if want := "backup: 0 of 100 accounts, 0 of 300 messages, 0.1 kB"; last() != want {
		t.Errorf("%q, want %q", last(), want)
	}
	_, _ = io.WriteString(m, "up\":{}}\n"+strings.Repeat(`{"account":{"id":"{\"message\":"}}`+"\n", 100))
	if want := "backup: 0 of"; !strings.HasPrefix(last(), want) {
		t.Errorf("%q: shown again at once", last())
	}
	now = now.Add(10 * time.Second)
	_, _ = io.WriteString(m, `{"account":`)
	_, _ = io.WriteString(m, "{}}\n")
	now = now.Add(time.Second)
	_, _ = io.WriteString(m, strings.Repeat(`{"message":{}}`+"\n", 100))
	if want := "backup: 101 of 101 accounts, 100 of 300 messages, 5.2 kB, about 11s left"; last() != want {
		t.Errorf("%q, want %q", last(), want)
	}
	now = now.Add(time.Second)
	g.width = func() int { return 20 }
	g.show(backup.Counts{Accounts: 1e9}, backup.Counts{}, 0)
	if want := "backup: 1000000000 "; last() != want {
		t.Errorf("%q, want %q", last(), want)
	}
	g.end()
	if last() != "" {
		t.Errorf("%q stays", last())
	}
	env.isTerminal = func(any) bool { return false }
	out.Reset()
	g = newGauge(env)
	g.begin("backup")
	g.show(backup.Counts{Accounts: 5}, backup.Counts{}, 0)
	g.end()
	if out.Len() > 0 {
		t.Errorf("%q is no terminal's", out.String())
	}
}

func TestContentsForPeople(t *testing.T) {
	for want, c := range map[string]backup.Counts{
		"0 accounts, 0 messages and 0 dead letters": {},
		"1 account, 2 messages, 1 dead letter, 3 keys, 1 disabled webhook, 2 sealed secrets and 1 sealed credential": {Groups: 4, Accounts: 1, Messages: 2, Dead: 1, Keys: 3, Webhooks: 1, Secrets: 2, Credentials: 1},
	} {
		if got := contents(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for d, want := range map[time.Duration]string{time.Millisecond: "less than a second", 61400 * time.Millisecond: "1m1s"} {
		if got := took(d); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for size, want := range map[int64]string{999: "1.0 kB", 1_200_000: "1.2 MB", 812_000_000: "812 MB"} {
		if got := megabytes(size); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
