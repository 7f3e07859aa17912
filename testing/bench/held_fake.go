package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	crand "crypto/rand"
)

const heldHosts = 10 // addresses of 127/8, because the ports of one would run out

// heldFake holds requests of connectors until there is a message, over TLS and one version of HTTP.
type heldFake struct {
	port   int
	server *http.Server

	mu       sync.Mutex
	accounts []heldAccount
	held     int // accounts with a call under way
	seq      int
}

type heldAccount struct {
	calls   int
	since   time.Time // when its last call ended, while none is under way
	gap     time.Duration
	from    int      // the number of the first queued message
	queue   [][]byte // messages that are not confirmed
	arrived chan struct{}
}

func newHeldFake(accounts int, authority string, http2 bool) (*heldFake, error) {
	f := &heldFake{accounts: make([]heldAccount, accounts)}
	for i := range f.accounts {
		f.accounts[i].arrived = make(chan struct{}, 1)
	}
	f.forget()
	certificate, err := heldCertificate(authority)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp4", "0.0.0.0:0") // all of 127/8
	if err != nil {
		return nil, err
	}
	f.port = listener.Addr().(*net.TCPAddr).Port
	f.server = &http.Server{
		Handler: f, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		Protocols: new(http.Protocols),
	}
	f.server.Protocols.SetHTTP1(!http2)
	f.server.Protocols.SetHTTP2(http2)
	go func() { _ = f.server.ServeTLS(listener, "", "") }()
	return f, nil
}

func (f *heldFake) close() { _ = f.server.Close() }

func heldHost(n int) string { return fmt.Sprintf("127.0.1.%d", 1+n) }

func (f *heldFake) url(account int) string {
	return fmt.Sprintf("https://%s:%d/", heldHost(account%heldHosts), f.port)
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

// waiting returns how many accounts have messages that no later call has confirmed, and how many of
// them have a call under way: messages are late with the others, and lost or delivered with these.
func (f *heldFake) waiting() (accounts, called int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.accounts {
		if len(f.accounts[i].queue) > 0 {
			accounts++
			if f.accounts[i].calls > 0 {
				called++
			}
		}
	}
	return accounts, called
}

// forget begins to measure gaps anew.
func (f *heldFake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.accounts {
		f.accounts[i].gap, f.accounts[i].since = 0, time.Now()
	}
}

// gaps returns the longest time without a call of each account, in seconds, sorted.
func (f *heldFake) gaps() []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]float64, len(f.accounts))
	for i := range f.accounts {
		all[i] = f.accounts[i].gap.Seconds()
	}
	slices.Sort(all)
	return all
}

// await waits until nearly all accounts are held: at any time a few are between two calls.
func (f *heldFake) await(ctx context.Context, accounts int, most time.Duration) error {
	for end := time.Now().Add(most); ; {
		f.mu.Lock()
		held := f.held
		f.mu.Unlock()
		if held >= accounts-accounts/1000 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d accounts are held after %v", held, accounts, most)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// heldCertificate makes a certificate for the fake, and writes it to a file as the authority.
func heldCertificate(authority string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for n := range heldHosts {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(heldHost(n)))
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
