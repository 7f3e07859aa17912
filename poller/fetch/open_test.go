package fetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

// A body is read while it comes, and the connection is used again only if it was read to its end.
func TestOpenStreams(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "identity" {
			t.Errorf("Accept-Encoding is %q", got)
		}
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, " second")
	})
	response, body, err := client(t, Options{}).Open(t.Context(), Call{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 5)
	if _, err := io.ReadFull(body, first); err != nil || string(first) != "first" || response.Status != 200 || body.Size != 0 {
		t.Errorf("%q, %+v, %v", first, response, err)
	}
	close(more)
	if rest, err := io.ReadAll(body); err != nil || string(rest) != " second" {
		t.Errorf("%q, %v", rest, err)
	}
	for range 2 {
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
}

// An answer without success has no body to read, and begins with what it says.
func TestOpenWithoutSuccess(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, strings.Repeat("x", 2*errorBody))
	})
	response, body, err := client(t, Options{}).Open(t.Context(), Call{URL: url})
	if err != nil || body != nil || response.Status != http.StatusTeapot || len(response.Body) != errorBody {
		t.Errorf("%+v, %+v, %v", response, body, err)
	}
}

// What goes wrong while a body is read is an *Error like those of Do.
func TestOpenedBodiesFail(t *testing.T) {
	t.Parallel()
	zipped := func(text string) []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		_, _ = io.WriteString(zip, text)
		_ = zip.Close()
		return out.Bytes()
	}
	header := func(name, value string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(name, value)
			_, _ = w.Write(body)
		}
	}
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		call   Call
		want   string
		code   Code
	}{
		"stated too large": {answer: header("Content-Length", "11", []byte("0123456789a")), call: Call{MaxBody: 10}, code: CodeTooLarge},
		"too large": {answer: func(w http.ResponseWriter, _ *http.Request) {
			for range 11 {
				_, _ = w.Write([]byte("x"))
				_ = http.NewResponseController(w).Flush()
			}
		}, call: Call{MaxBody: 10}, code: CodeTooLarge},
		"just large enough": {answer: header("X", "y", []byte("0123456789")), call: Call{MaxBody: 10}, want: "0123456789"},
		"broken off":        {answer: header("Content-Length", strconv.Itoa(10), []byte("012345678")), code: CodeReset},
		"zipped unasked":    {answer: header("Content-Encoding", "gzip", zipped("text")), want: "text"},
		"broken gzip":       {answer: header("Content-Encoding", "gzip", []byte("no gzip, and long enough for a header")), code: CodeHTTP},
		"zstd":              {answer: header("Content-Encoding", "zstd", []byte("x")), code: CodeHTTP},
		"an unknown coding": {answer: header("Content-Encoding", "other", []byte("x")), code: CodeHTTP},
		"identity":          {answer: header("Content-Encoding", "identity", []byte("x")), want: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.call.URL = serve(t, tt.answer) + "/?secret"
			var got []byte
			_, body, err := client(t, Options{}).Open(t.Context(), tt.call)
			if err == nil {
				got, err = io.ReadAll(body)
				_ = body.Close()
			}
			var failed *Error
			switch {
			case tt.code == "" && (err != nil || string(got) != tt.want):
				t.Errorf("%q, %v", got, err)
			case tt.code != "" && (!errors.As(err, &failed) || failed.Code != tt.code):
				t.Errorf("%q, %v, want %s", got, err, tt.code)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("%v", err)
			}
		})
	}
}

// silentAfter answers with some bytes and then with nothing.
type silentAfter struct{ text string }

func (s silentAfter) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.text == "" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	from, to := io.Pipe()
	go func() {
		_, _ = io.WriteString(to, s.text)
		<-r.Context().Done()
		_ = to.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: from, ContentLength: -1, Request: r}, nil
}

// A host that says nothing for half a minute is given up, however long the call may take. A reader may
// take any time.
func TestSilentHostsAreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, _, err := New(Options{Transport: silentAfter{}}).Open(t.Context(), Call{URL: "https://example.com"})
		if got := CheckError(err); got.Code != "timeout" || time.Since(began) != 30*time.Second {
			t.Errorf("before the header: %v after %v", got, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, body, err := New(Options{Transport: silentAfter{"text"}}).Open(ctx, Call{URL: "https://example.com"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = body.Close() }()
		time.Sleep(5 * time.Minute) // the reader's
		began = time.Now()
		got, err := io.ReadAll(body)
		if failed := CheckError(err); string(got) != "text" || failed.Code != "timeout" || time.Since(began) != bodyIdle {
			t.Errorf("in the body: %q, %v after %v", got, failed, time.Since(began))
		}
	})
}

// A file has the name and the type that the host says, made harmless.
func TestFileHeads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ disposition, kind, name, media string }{
		{"", "", "", "text/plain"}, // as net/http sees it
		{`attachment; filename="报价.pdf"`, "Application/PDF; x=y", "报价.pdf", "application/pdf"},
		{`attachment; filename*=UTF-8''%E6%8A%A5%E4%BB%B7.pdf`, "text/html; charset=", "报价.pdf", "text/html"},
		{`attachment; filename="../../etc/passwd"`, "nonsense", "passwd", ""},
		{`attachment; filename=`, "a/b/c", "", ""},
		{strings.Repeat("x", 5<<10), "image/png", "", "image/png"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if tt.disposition != "" {
				w.Header().Set("Content-Disposition", tt.disposition)
			}
			if tt.kind != "" {
				w.Header().Set("Content-Type", tt.kind)
			}
			_, _ = io.WriteString(w, "text")
		})
		body, err := client(t, Options{}).File(t.Context(), "the host", Call{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		if body.Name != tt.name || body.Type != tt.media || body.Size != 4 {
			t.Errorf("%q, %q: %+v", tt.disposition, tt.kind, body)
		}
		_ = body.Close()
	}
}

func TestFileStatuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]poller.CheckError{
		404: {Kind: poller.Gone, Scope: poller.ScopeAccount, Code: "file_gone"},
		410: {Kind: poller.Gone, Scope: poller.ScopeAccount, Code: "file_gone"},
		403: {Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "http_403"},
		429: {Kind: poller.RateLimited, Scope: poller.ScopeRateKey, Code: "http_429"},
		503: {Kind: poller.Transient, Scope: poller.ScopeRateKey, Code: "http_503"},
		302: {Kind: poller.Transient, Scope: poller.ScopeAccount, Code: "http_302"},
		206: {Kind: poller.Protocol, Scope: poller.ScopeRateKey, Code: "protocol"},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		_, err := client(t, Options{}).File(t.Context(), "the host", Call{URL: url})
		var failed *poller.CheckError
		if !errors.As(err, &failed) || failed.Kind != want.Kind || failed.Scope != want.Scope || failed.Code != want.Code {
			t.Errorf("%d: %+v", status, err)
		}
	}
}
