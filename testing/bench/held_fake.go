package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// heldFakeGarbage lets the fake collect garbage rarely: with ten thousand connections that takes
// most of a second of the processors that it shares with what is measured.
const heldFakeGarbage = 800

// heldFake is one process of the fake. It holds requests of connectors until there is a message,
// over TLS and one version of HTTP.
type heldFake struct {
	mu       sync.Mutex
	accounts []heldAccount
	held     int // accounts with a call under way
	seq      int

	connections map[string]int // of each of a mail server's addresses, now
	most        int            // of one address at once
}

type heldAccount struct {
	known   bool // it was called
	calls   int
	since   time.Time // when its last call ended, while none is under way
	gap     time.Duration
	from    int      // the number of the first queued message
	queue   [][]byte // messages that are not confirmed
	arrived chan struct{}
}

// heldFakeServe is one of the fake's processes, until its input ends.
func heldFakeServe(_ context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("heldfake", flag.ContinueOnError)
	accounts := flags.Int("accounts", 0, "how many there are")
	authority := flags.String("authority", "", "the file with its certificate; that of its key is beside it")
	http2 := flags.Bool("http2", false, "over HTTP/2 instead of HTTP/1.1")
	if err := flags.Parse(args); err != nil {
		return err
	}
	debug.SetGCPercent(heldFakeGarbage)
	f := newHeldFake(*accounts)
	certificate, err := tls.LoadX509KeyPair(*authority, *authority+keySuffix)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", "0.0.0.0:0") // all of 127/8
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: f, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Protocols: new(http.Protocols),
	}
	server.Protocols.SetHTTP1(!*http2)
	server.Protocols.SetHTTP2(*http2)
	defer server.Close()
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return f.answer(in, out, listener.Addr().(*net.TCPAddr).Port, f.send)
}

func newHeldFake(accounts int) *heldFake {
	f := &heldFake{accounts: make([]heldAccount, accounts)}
	for i := range f.accounts {
		f.accounts[i].arrived = make(chan struct{}, 1)
	}
	return f
}

// answer answers the benchmark until the input ends.
func (f *heldFake) answer(in io.Reader, out io.Writer, port int, send func(account int)) error {
	return answering(in, out, "", func(what string, n int) (any, error) {
		switch what {
		case "where":
			return fetchAddress{port}, nil
		case "send":
			send(n)
			return true, nil
		case "forget":
			f.forget()
			return true, nil
		case "held":
			return f.underWay(), nil
		case "waiting":
			return f.waiting(), nil
		case "gaps":
			return f.gaps(), nil
		case "most":
			return f.mostConnections(), nil
		}
		return nil, fmt.Errorf("fake: %q", what)
	})
}

// send has a message for an account, with the time.
func (f *heldFake) send(account int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	a := &f.accounts[account]
	a.queue = append(a.queue, fmt.Appendf(nil, `{"id":"%d","type":"text","data":%d}`, f.seq, time.Now().UnixNano()))
	select {
	case a.arrived <- struct{}{}:
	default:
	}
}

// ServeHTTP answers one request. The cursor is the number of the last message that the caller has.
func (f *heldFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Account struct{ ID string }
		Cursor  *int
		Hold    float64
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil || json.Unmarshal(body, &asked) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	i, err := strconv.Atoi(strings.TrimPrefix(asked.Account.ID, "held-"))
	if err != nil || i < 0 || i >= len(f.accounts) {
		w.WriteHeader(http.StatusGone)
		return
	}
	f.begin(i)
	defer f.end(i)
	hold := time.NewTimer(time.Duration(asked.Hold * float64(time.Second)))
	defer hold.Stop()
	for {
		if page := f.page(i, asked.Cursor); page != nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(page)
			return
		}
		select {
		case <-f.accounts[i].arrived:
		case <-hold.C:
			w.WriteHeader(http.StatusNoContent)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// page returns the messages behind a cursor, and forgets those that it confirms; nil if there is
// none.
func (f *heldFake) page(account int, cursor *int) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &f.accounts[account]
	if cursor != nil && *cursor > a.from {
		n := min(*cursor-a.from, len(a.queue))
		a.queue, a.from = a.queue[n:], a.from+n
	}
	if len(a.queue) == 0 {
		return nil
	}
	return fmt.Appendf(nil, `{"messages":[%s],"next_cursor":%d}`, bytes.Join(a.queue, []byte(",")), a.from+len(a.queue))
}

func (f *heldFake) begin(account int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &f.accounts[account]
	a.known = true
	if a.calls++; a.calls == 1 {
		f.held++
		a.gap = max(a.gap, time.Since(a.since))
	}
}

func (f *heldFake) end(account int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &f.accounts[account]
	if a.calls--; a.calls == 0 {
		f.held--
		a.since = time.Now()
	}
}

// heldWaiting are the accounts that have messages which no later call has confirmed, and those of
// them that have a call under way: messages are late with the others, and lost or delivered with
// these.
type heldWaiting struct{ Accounts, Called int }

func (f *heldFake) waiting() (w heldWaiting) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.accounts {
		if len(f.accounts[i].queue) > 0 {
			w.Accounts++
			if f.accounts[i].calls > 0 {
				w.Called++
			}
		}
	}
	return w
}

// forget begins to measure gaps anew.
func (f *heldFake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.accounts {
		f.accounts[i].gap, f.accounts[i].since = 0, time.Now()
	}
}

// gaps returns the longest time without a call of each account that has ever had one, in seconds.
func (f *heldFake) gaps() []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []float64
	for i := range f.accounts {
		a := &f.accounts[i]
		if a.known && a.calls == 0 {
			all = append(all, max(a.gap, time.Since(a.since)).Seconds())
		} else if a.known {
			all = append(all, a.gap.Seconds())
		}
	}
	return all
}

// underWay returns how many accounts have a call under way.
func (f *heldFake) underWay() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}
