package weixin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// Whatever the server answers, the pool accepts what is read of it.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"ret":0,"msgs":[{"seq":1,"message_id":9232379236109516801,"create_time_ms":1795370936167,"message_type":1,"item_list":[{"type":1,"text_item":{"text":"你好"}}]}],"get_updates_buf":"Ym90","longpolling_timeout_ms":35000}`,
		`{"ret":-14,"errcode":-14,"errmsg":"session timeout"}`, `{"errcode":"x","msgs":[null,7,{},[]]}`, `{"msgs":{}}`, `{"ret":0,"ret":1,"msgs":[{"message_id":"\ud800"}]}`, "{\"ret\":0,\"a\":\"\xff\"}", `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := parse(body)
		if err != nil {
			return
		}
		r := p.result("before")
		if err := r.Validate(); err != nil {
			t.Fatal(err)
		}
		ids := make(map[string]bool)
		for _, m := range r.Messages {
			if !json.Valid(m.Data) || !utf8.Valid(m.Data) || m.Type == "" || ids[m.ID] {
				t.Fatalf("got %+v", m)
			}
			ids[m.ID] = true
		}
		if cursor, err := decodeCursor(r.Cursor); err != nil || cursor != "" && cursor != p.buf {
			t.Fatalf("cursor %q: %v", r.Cursor, err)
		}
		if r.Hold < 0 || r.Hold > maxHold {
			t.Fatalf("hold %v", r.Hold)
		}
	})
}

// answering is a network in which every request gets this answer.
type answering []byte

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(a)
	if strings.HasSuffix(r.URL.Path, "/notifystart") {
		body = []byte(`{"ret":0}`)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// Any answer in place of the server's costs a bounded amount of memory.
func TestHostileAnswers(t *testing.T) {
	const (
		size = 2 << 20
		most = 30 << 20 // bytes allocated in all, including the answer
	)
	fill := func(before, part, after string) []byte {
		n := (size - len(before) - len(after)) / len(part)
		return []byte(before + strings.Repeat(part, n) + after)
	}
	for name, body := range map[string][]byte{
		"many messages":    fill(`{"ret":0,"msgs":[{}`, `,{}`, `]}`),
		"one that is deep": fill(`{"ret":0,"msgs":[`, `[`, ``),
		"many fields":      fill(`{"ret":0`, `,"a":0`, `}`),
		"items of one":     fill(`{"ret":0,"msgs":[{"message_id":1,"item_list":[{}`, `,{}`, `]}]}`),
		"a long id":        fill(`{"ret":0,"msgs":[{"message_id":1`, `1`, `}]}`),
		"a long text":      fill(`{"ret":0,"msgs":[{"message_id":1,"x":"`, `\u2028`, `"}]}`),
		"not UTF-8":        fill(`{"ret":0,"msgs":[{"message_id":1,"x":"`, "\xff ", `"}]}`),
		"members of one":   fill(`{"ret":0,"msgs":[{"message_id":1`, `,"a":0`, `}]}`),
	} {
		checker := New(fetch.New(fetch.Options{Transport: answering(body)}), source())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := checker.Check(t.Context(), poller.Request{Account: "a", CheckID: "c", Config: configOf("", "a"), Limit: 200, Hold: hold})
		runtime.ReadMemStats(&after)
		if cost := after.TotalAlloc - before.TotalAlloc; cost > most {
			t.Errorf("%s: %d MiB allocated", name, cost>>20)
		}
		var failed *poller.CheckError
		if err != nil && (!errors.As(err, &failed) || failed.Kind != poller.Protocol) {
			t.Errorf("%s: got %v", name, err)
		}
		if err == nil && (len(r.Messages) != 1 || r.Validate() != nil || len(r.Warnings) == 0) {
			t.Errorf("%s: got %d messages, %v", name, len(r.Messages), r.Warnings)
		}
	}
}
