package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	fetchUnchanged = 0.8 // of all answers: 304 to a feed, 204 to a connector
	fetchItems     = 20  // of a feed
	fetchText      = 600 // bytes of an item's or a message's text
)

// fetchAddress is where the fake is asked.
type fetchAddress struct{ Port int }

// fetchStats is what the fake was asked.
type fetchStats struct{ Calls, Open int }

// fetchFake answers for all feeds and connectors, on all addresses of 127/8.
type fetchFake struct {
	calls, open, found atomic.Int64

	authority    *x509.Certificate
	key          *ecdsa.PrivateKey
	certificates sync.Map // by address
	feed         string   // without its newest item
}

// fetchFakeServe is the fake, until its input ends.
func fetchFakeServe(_ context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("fetchfake", flag.ContinueOnError)
	flags.String("redis", "", "not used")
	authority := flags.String("authority", "", "the file that gets the authority's certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	f := &fetchFake{feed: fetchFeed()}
	if err := f.makeAuthority(*authority); err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", "0.0.0.0:0") // all of 127/8
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: f, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute,
		TLSConfig:    &tls.Config{GetCertificate: f.certificate, MinVersion: tls.VersionTLS12},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // no HTTP/2
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				f.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				f.open.Add(-1)
			}
		},
	}
	defer server.Close()
	go func() { _ = server.ServeTLS(listener, "", "") }()
	return answering(in, out, "", func(what string, _ int) (any, error) {
		switch what {
		case "where":
			return fetchAddress{listener.Addr().(*net.TCPAddr).Port}, nil
		case "stats":
			return fetchStats{int(f.calls.Load()), int(f.open.Load())}, nil
		}
		return nil, fmt.Errorf("fetchfake: %q", what)
	})
}

// ServeHTTP answers a feed's or a connector's call.
func (f *fetchFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.calls.Add(1)
	unchanged := rand.Float64() < fetchUnchanged
	header := w.Header()
	header.Set("Server", "fake")
	header.Set("Cache-Control", "max-age=60")
	if r.Method == http.MethodPost {
		_, _ = io.Copy(io.Discard, r.Body)
		if unchanged {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		header.Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, f.page())
		return
	}
	if etag := r.Header.Get("If-None-Match"); unchanged && etag != "" {
		header.Set("ETag", etag)
		w.WriteHeader(http.StatusNotModified)
		return
	}
	n := f.found.Add(1)
	header.Set("Content-Type", "application/rss+xml; charset=utf-8")
	header.Set("ETag", fmt.Sprintf(`"%d"`, n))
	header.Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	_, _ = io.WriteString(w, strings.Replace(f.feed, "NEWEST", fmt.Sprint("new-", n), 3))
}

// page returns two messages of a connector.
func (f *fetchFake) page() string {
	n := f.found.Add(2)
	text := strings.Repeat("word and word ", fetchText/14)
	message := func(n int64) string {
		return fmt.Sprintf(`{"id":"%d","type":"text","time":"2026-01-31T12:00:00Z","data":{"from":"somebody","text":%q,"tags":["a","b"]}}`, n, text)
	}
	return fmt.Sprintf(`{"messages":[%s,%s],"next_cursor":{"after":%d},"has_more":false}`, message(n-1), message(n), n)
}

// fetchFeed returns an RSS feed of the usual size, in which NEWEST stands for the newest item's id.
func fetchFeed() string {
	var text strings.Builder
	text.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dc="http://purl.org/dc/elements/1.1/">
<channel><title>A feed</title><link>https://example.com/</link><description>What is new</description><language>en</language>
`)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for i := range fetchItems {
		id := fmt.Sprint("item-", i)
		if i == 0 {
			id = "NEWEST"
		}
		fmt.Fprintf(&text, `<item><title>What happened, %s</title><link>https://example.com/posts/%s</link><guid isPermaLink="false">%s</guid>
<dc:creator>Somebody</dc:creator><pubDate>%s</pubDate><category>news</category><description><![CDATA[<p>%s</p>]]></description></item>
`, id, id, id, at.Add(-time.Duration(i)*time.Hour).Format(time.RFC1123Z), strings.Repeat("word and <b>word</b> ", fetchText/21))
	}
	text.WriteString("</channel></rss>\n")
	return text.String()
}

// makeAuthority makes the authority, and writes its certificate to a file.
func (f *fetchFake) makeAuthority(file string) (err error) {
	if f.key, err = ecdsa.GenerateKey(elliptic.P256(), crand.Reader); err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(crand.Reader, template, template, f.key.Public(), f.key)
	if err != nil {
		return err
	}
	if f.authority, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
}

// certificate returns the certificate of the address that is asked, as each host has its own.
func (f *fetchFake) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	addr, ok := hello.Conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil, fmt.Errorf("fetchfake: %v is no address", hello.Conn.LocalAddr())
	}
	if known, ok := f.certificates.Load(addr.IP.String()); ok {
		return known.(*tls.Certificate), nil
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(rand.Int64()), Subject: pkix.Name{CommonName: "host"}, NotBefore: f.authority.NotBefore, NotAfter: f.authority.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{addr.IP},
	}
	der, err := x509.CreateCertificate(crand.Reader, template, f.authority, f.key.Public(), f.key)
	if err != nil {
		return nil, err
	}
	made, _ := f.certificates.LoadOrStore(addr.IP.String(), &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: f.key})
	return made.(*tls.Certificate), nil
}
