package upstream

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, options Options) *Upstream {
	t.Helper()
	u, stop, err := Serve(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return u
}

func get(t *testing.T, url, tag string) (int, string, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("If-None-Match", tag)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(body), response.Header.Get("ETag")
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("webhook-id", "c1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(answer)
}

func TestFeedsShowWhatIsPosted(t *testing.T) {
	u := start(t, Options{Window: 2})
	const id = "a/b <c> q"
	if n := u.PostN(id, 3); n != 3 {
		t.Errorf("posted %d", n)
	}
	for _, route := range []string{"feed", "atom", "jsonfeed"} {
		status, body, tag := get(t, u.URL(route, id), "")
		if status != 200 || strings.Contains(body, "q-1") || !strings.Contains(body, "q-2") || !strings.Contains(body, "q-3") {
			t.Errorf("%s: got %d %s", route, status, body)
		}
		if strings.Index(body, "q-3") > strings.Index(body, "q-2") {
			t.Errorf("%s: not newest first: %s", route, body)
		}
		if status, _, _ := get(t, u.URL(route, id), tag); status != 304 {
			t.Errorf("%s: again: got %d", route, status)
		}
	}
	if got := u.Stats(id); got.Posted != 3 || got.Checks != 6 || got.Overlaps != 0 || got.Last.IsZero() {
		t.Errorf("got %+v", got)
	}
}

func TestConnectorPages(t *testing.T) {
	u := start(t, Options{PageLimit: 2})
	u.PostN("a", 3)
	for _, c := range []struct{ cursor, want, not string }{
		{`null`, `"has_more":true`, `a-3`},
		{`2`, `"next_cursor":3`, `a-2`},
		{`3`, `"messages":[]`, `a-3`},
		{`99`, `"cursor_reset":true`, `a-3`},
		{`"of another"`, `"kind":"cursor_invalid"`, `messages`},
	} {
		status, body := post(t, u.URL("connector", "a"), `{"check_id":"c1","limit":200,"cursor":`+c.cursor+`}`)
		if status != 200 || !strings.Contains(body, c.want) || strings.Contains(body, c.not) {
			t.Errorf("cursor %s: got %d %s", c.cursor, status, body)
		}
	}
	if status, _ := post(t, u.URL("connector", "a"), `{"check_id":"other"}`); status != 400 {
		t.Errorf("a wrong check id: got %d", status)
	}
}

func TestSignatureIsChecked(t *testing.T) {
	u := start(t, Options{SigningSecret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"})
	if status, _ := post(t, u.URL("connector", "a"), `{"check_id":"c1"}`); status != 401 {
		t.Errorf("unsigned: got %d", status)
	}
}

func TestFaults(t *testing.T) {
	u := start(t, Options{})
	url := u.URL("feed", "a")
	u.Fail("a", Fault{Status: 503, Times: 2})
	for i, want := range []int{503, 503, 200} {
		if status, _, _ := get(t, url, ""); status != want {
			t.Errorf("check %d: got %d, want %d", i, status, want)
		}
	}
	u.Fail("a", Fault{ErrorKind: "auth"})
	if _, body, _ := get(t, url, ""); !strings.Contains(body, `"kind":"auth"`) {
		t.Errorf("got %s", body)
	}
	u.Fail("a", Fault{Garbage: true})
	if _, body, _ := get(t, url, ""); strings.Contains(body, "rss") {
		t.Errorf("got %s", body)
	}
	u.Heal("a")
	if _, body, _ := get(t, url, ""); !strings.Contains(body, "rss") {
		t.Errorf("got %s", body)
	}
}

func TestHangAndOverlap(t *testing.T) {
	u := New(Options{})
	u.Fail("a", Fault{Hang: true})
	var group sync.WaitGroup
	check := func(ctx context.Context) {
		group.Go(func() {
			u.ServeHTTP(discard{}, feedCheck(ctx))
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	check(ctx)
	check(t.Context())
	for u.Stats("a").Checks < 2 {
		runtime.Gosched() // the checks begin as soon as they are scheduled
	}
	cancel()
	u.Heal("a")
	group.Wait()
	if got := u.Stats("a"); got.Overlaps != 1 {
		t.Errorf("got %+v", got)
	}
	u.ServeHTTP(discard{}, feedCheck(t.Context()))
	if got := u.Stats("a"); got.Checks != 3 || got.Overlaps != 1 {
		t.Errorf("after healing: got %+v", got)
	}
}

// A client that goes away ends its check, whether the check hangs or not.
func TestHangEndsWithTheClient(t *testing.T) {
	u := start(t, Options{})
	u.Fail("a", Fault{Hang: true})
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.URL("connector", "a"), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if response, err := http.DefaultClient.Do(request); err == nil {
			response.Body.Close()
		}
	})
	for u.Stats("a").Checks == 0 {
		runtime.Gosched()
	}
	cancel()
	group.Wait()
	for running := 1; running > 0; runtime.Gosched() {
		a := u.account("a")
		a.mu.Lock()
		running = a.running
		a.mu.Unlock()
	}
}

func TestManyAccountsAtOnce(t *testing.T) {
	u := New(Options{})
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for n := range 2000 {
				id := strconv.Itoa(n)
				u.Post(id)
				if worker == 0 {
					u.Stats(id)
				}
			}
		})
	}
	group.Wait()
	if got := len(u.Accounts()); got != 2000 {
		t.Errorf("got %d accounts", got)
	}
	if got := u.Stats("1999"); got.Posted != 8 {
		t.Errorf("got %+v", got)
	}
}

func feedCheck(ctx context.Context) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodGet, "http://upstream/feed/a", nil)
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) WriteHeader(int)             {}
