package poller

import (
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/accounts/latest"
	"github.com/rounds-dev/rounds/circulate"
)

// A replica remembers so many checks, the latest, and a long error does not stay in memory.
func TestLatestChecksAreBounded(t *testing.T) {
	t.Parallel()
	var l latestChecks
	add := func(n int) {
		account := "busy"
		if n%1000 == 0 {
			account = "rare"
		}
		l.add(ranCheck{account: account, mark: circulate.MarkOK, Check: latest.Check{At: time.Unix(int64(n), 0), Messages: n, Error: "é" + strings.Repeat("é", n%200)}})
	}
	for n := range 10_000 {
		add(n)
	}
	if len(l.all) != mostLatest {
		t.Errorf("%d checks are remembered", len(l.all))
	}
	all := l.take([]string{"busy", "rare", "none"})
	if busy := all["busy"]; len(all) != 2 || len(busy) != latest.Most || busy[latest.Most-1].Messages != 9999 || busy[0].Messages != 9980 || busy[0].Outcome != "ok" {
		t.Errorf("%+v", all)
	}
	if rare := all["rare"]; len(rare) != 4 || rare[0].Messages != 6000 {
		t.Errorf("%+v", rare)
	}
	for n := range 5000 {
		add(10_000 + n)
	}
	all = l.take([]string{"busy", "none"})
	for _, c := range all["busy"] {
		if len(c.Error) > circulate.MaxError || !utf8.ValidString(c.Error) {
			t.Errorf("an error of %d bytes: %q", len(c.Error), c.Error)
		}
	}
	if len(all) != 1 || len(all["busy"]) != latest.Most || all["busy"][latest.Most-1].Messages != 14_999 {
		t.Errorf("%+v", all)
	}
	if again := l.take([]string{"busy"}); len(again) != 0 {
		t.Errorf("reported twice: %+v", again)
	}
	if l.take(nil); l.watched != nil {
		t.Error("nobody looks, and checks wait")
	}
}

func BenchmarkLatestChecks(b *testing.B) {
	var l latestChecks
	for i := range mostLatest {
		l.add(ranCheck{account: strconv.Itoa(i)})
	}
	l.take([]string{"other"})
	c := ranCheck{account: "account-000001", mark: circulate.MarkOK, Check: latest.Check{At: time.Unix(1, 0)}}
	b.ReportAllocs()
	for b.Loop() {
		l.add(c)
	}
}
