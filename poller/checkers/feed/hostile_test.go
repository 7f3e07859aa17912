package feed

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/testing/checktest"
	"github.com/rounds-dev/rounds/testing/hostile"
)

// free is a reserver that always has room.
func free(context.Context, int64) (func(), error) { return func() {}, nil }

// allocated returns how many bytes f allocates in all, which is more than it ever
// has at once.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// Any body costs a bounded amount of memory, both in full length and in lengths that guard
// accepts.
func TestHostileBodies(t *testing.T) {
	const most = 420 << 20 // bytes allocated in all, of which at most a fifth exists at once
	for _, b := range hostile.Bodies() {
		if b.Route != "feed" {
			continue
		}
		var err error
		for _, size := range []int{48 << 10, 700 << 10, hostile.Size} {
			if size == hostile.Size && err == nil {
				continue // tests only the length, and is slow
			}
			body := b.Make(size)
			cost := allocated(func() { _, err = parse(t.Context(), body, "", free) })
			if cost > most {
				t.Errorf("%s, %d bytes: %d MiB allocated", b.Name, size, cost>>20)
			}
			if err != nil {
				if e := checktest.Failure(t, err); e.Kind != poller.Protocol || e.Scope != "" && e.Scope != poller.ScopeAccount {
					t.Errorf("%s, %d bytes: %v, scope %s", b.Name, size, err, e.Scope)
				}
			}
		}
	}
}

// The control bytes that the parser skips must not hide anything from guard. One of them once
// did, and the text after it overflowed the parser's stack.
func TestControlBytesHideNothing(t *testing.T) {
	for name, before := range map[string]string{
		"before the root":     "\x01<rss version='2.0'><channel>",
		"in the declaration":  "<?xml\x01 version='1.0'?><rss version='2.0'><channel>",
		"in the root's name":  "<r\x01ss version='2.0'><channel>",
		"before a stray end":  "<rss version='2.0'>\x01<channel>",
		"in text":             "<rss version='2.0'><channel><title>\x01</title>",
		"in an end":           "<rss version='2.0'><channel><title></tit\x01le>",
		"in an entity":        "<rss version='2.0'><channel><title>&am\x01p;</title>",
		"in a comment's end":  "<rss version='2.0'><channel><!-- -\x01->",
		"in a CDATA section":  "<rss version='2.0'><channel><title><![CDA\x01TA[ ]]></title>",
		"in another encoding": "<?xml version='1.0' encoding='utf-\x0116le'?><rss version='2.0'><channel>",
		"NUL":                 "<rss version='2.0'>\x00<channel>",
	} {
		body := []byte(before + "<item>")
		for range 1 << 17 {
			body = append(body, "<x:a>"...)
		}
		if _, err := judge(t.Context(), bytes.Clone(body), "", free); err == nil {
			t.Errorf("%s: the parser gets to see it", name)
		}
		_, err := parse(t.Context(), body, "", free)
		if got := checktest.Failure(t, err); got.Code != "not_a_feed" {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Text after the root is ignored. A late or second XML declaration is refused.
func TestAroundTheRoot(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"junk behind":        {rss("<guid>1</guid>") + "<b <<< \xff\x01", 1},
		"a second root":      {rss("<guid>1</guid>") + rss("<guid>2</guid>"), 1},
		"control bytes":      {rss("<guid>\x011\x02</guid>") + "\x00", 1},
		"declared late":      {`<rss version="2.0"><?xml encoding="latin1"?><channel/></rss>`, -1},
		"declared twice":     {`<?xml version="1.0"?><?xml encoding="latin1"?>` + rss(), -1},
		"an unknown one":     {`<?xml version="1.0" encoding="nothing"?>` + rss("<guid>1</guid>"), 1},
		"in capitals":        {`<?xml version="1.0" encoding="UTF-8"?>` + rss("<guid>1</guid>"), 1},
		"windows-1251":       {"<?xml version=\"1.0\" encoding='windows-1251'?>\n" + rss("<guid>\xcf\xf0</guid>"), 1},
		"JSON in disguise":   {"\x01{\"items\":[{}],\"x\":\"<rss></rss>", -1},
		"not what it claims": {`<?xml version="1.0" encoding="utf-16"?>` + rss("<guid>1</guid>"), 1},
	} {
		read, err := parse(t.Context(), []byte(c.body), "", free)
		if (err != nil) != (c.want < 0) || err == nil && len(read.items) != c.want {
			t.Errorf("%s: got %d items, %v", name, len(read.items), err)
		}
	}
	read, err := parse(t.Context(), []byte("<?xml version=\"1.0\" encoding='windows-1251'?>"+rss("<guid>\xcf\xf0</guid>")), "", free)
	if err != nil || read.items[0].id != "Пр" {
		t.Errorf("got %v, %v", read.items, err)
	}
}

// A check that runs out of time ends while it reads, at any point.
func TestReadingEndsWithTheCheck(t *testing.T) {
	for name, body := range map[string]string{
		"xml":  rss("<guid>1</guid>"),
		"json": `{"version":"https://jsonfeed.org/version/1.1","items":[{"id":"1"}]}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		// The check ends between guard and parser, or within one of them.
		late := func(context.Context, int64) (func(), error) { cancel(); return func() {}, nil }
		_, err := parse(ctx, []byte(body), "", late)
		if got := checktest.Failure(t, err); got.Scope != poller.ScopeEgress || got.Code != string(fetch.CodeCanceled) {
			t.Errorf("%s: got %v, scope %s", name, got, got.Scope)
		}
	}
	s := &source{ctx: t.Context(), text: make([]byte, 3*stopEvery)}
	if n, err := s.Read(make([]byte, 1<<20)); n > stopEvery || err != nil {
		t.Errorf("%d bytes at once, %v", n, err)
	}
}

// A check that finds no room counts against no account.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fetch.New(fetch.Options{})
		release, err := client.Reserve(t.Context(), 64<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		other, err := client.Reserve(t.Context(), 1<<20)
		if err != nil {
			t.Fatal("what is small waits for what is large")
		}
		other()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		body := rss("<guid>1</guid><description>" + string(make([]byte, 8<<20)) + "</description>")
		if _, err := parse(ctx, []byte(body), "", client.Reserve); err != nil {
			t.Errorf("there is room left: %v", err)
		}
		all, err := client.Reserve(t.Context(), 128<<20)
		if err != nil {
			t.Fatal(err)
		}
		defer all()
		body = rss("<guid>1</guid><description>" + string(make([]byte, 8<<20)) + "</description>")
		_, err = parse(ctx, []byte(body), "", client.Reserve)
		if got := checktest.Failure(t, err); got.Scope != poller.ScopeEgress || got.Network || !errors.Is(err, fetch.ErrBusy) {
			t.Errorf("got %v, scope %s", got, got.Scope)
		}
	})
}
