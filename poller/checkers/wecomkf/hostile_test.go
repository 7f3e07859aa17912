package wecomkf

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/token"
	"github.com/rounds-dev/rounds/testing/hostile"
)

// answering is a network in which a token can be fetched, and every request for messages gets
// this answer.
type answering []byte

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte(a)
	if strings.HasSuffix(r.URL.Path, "/gettoken") {
		body = []byte(`{"errcode":0,"errmsg":"ok","access_token":"t","expires_in":7200}`)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body))}, nil
}

// Any answer in place of WeCom's costs a bounded amount of memory and counts against no
// account.
func TestHostileAnswers(t *testing.T) {
	const most = 80 << 20 // bytes allocated in all, including the answer
	for _, b := range hostile.Bodies() {
		if b.Route != "wecom" {
			continue
		}
		checker := New(fetch.New(fetch.Options{Transport: answering(b.Make(hostile.Size))}), source(secret), token.NewMemory())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := checker.Check(t.Context(), poller.Request{Account: "wk1", CheckID: "c", Config: configOf("", "wk1"), Limit: 200})
		runtime.ReadMemStats(&after)
		if cost := after.TotalAlloc - before.TotalAlloc; cost > most {
			t.Errorf("%s: %d MiB allocated", b.Name, cost>>20)
		}
		var failed *poller.CheckError
		if !errors.As(err, &failed) || failed.Kind != poller.Protocol || failed.Scope != poller.ScopeRateKey {
			t.Errorf("%s: got %v", b.Name, err)
		}
	}
}
