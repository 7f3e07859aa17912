package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/rounds-dev/rounds/poller"
)

const (
	healthyHosts = 5000
	failingHosts = 400
)

// failures returns how checks fail, by a part of the account's address.
func failures() map[string]func(url string) error {
	status := func(status int, kind poller.ErrorKind, scope poller.ErrorScope, retry time.Duration) func(string) error {
		return func(string) error {
			return &poller.CheckError{
				Kind: kind, Scope: scope, RetryAfter: retry, Code: fmt.Sprint("http_", status),
				Message: fmt.Sprintf("the host answered %d %s", status, http.StatusText(status)),
			}
		}
	}
	text := func(kind poller.ErrorKind, code, format string) func(string) error {
		return func(url string) error {
			// The text differs from account to account, as those of third parties do.
			return &poller.CheckError{Kind: kind, Scope: poller.ScopeAccount, Code: code, Message: fmt.Sprintf(format, crc32.ChecksumIEEE([]byte(url)))}
		}
	}
	return map[string]func(string) error{
		"/gone/":    status(http.StatusGone, poller.Gone, poller.ScopeAccount, 0),
		"/missing/": status(http.StatusNotFound, poller.Transient, poller.ScopeAccount, 0),
		"/error/":   status(http.StatusInternalServerError, poller.Transient, poller.ScopeAccount, 0),
		"/login/":   status(http.StatusUnauthorized, poller.AuthFailed, poller.ScopeAccount, 0),
		"/often/":   status(http.StatusTooManyRequests, poller.RateLimited, poller.ScopeAccount, time.Minute),
		"/page/":    text(poller.Protocol, "html", "the address answers an HTML page of %d bytes, not a feed"),
		"/broken/":  text(poller.Protocol, "not_a_feed", "the answer is not an RSS, Atom or JSON feed: line %d"),
		"/order/":   text(poller.Transient, "backend", "order %d could not be read: the database did not answer"),
	}
}

// failingPaths are the failures, each as often as it is listed.
var failingPaths = []string{
	"missing", "missing", "missing", "missing", "error", "error", "error", "page", "page", "page", "login", "login", "often", "often", "broken", "order", "order", "gone",
}

// dashboardRecords returns so many records, one a line. Of every n accounts one fails, so that
// so many do in all; a few hosts have most of them.
func dashboardRecords(accounts, failing int) io.Reader {
	return &dashboardReader{accounts: accounts, failing: failing}
}

type dashboardReader struct {
	accounts, failing int
	number            int
	text              bytes.Buffer
}

// Read returns the next bytes.
func (r *dashboardReader) Read(p []byte) (int, error) {
	for r.text.Len() < len(p) && r.number < r.accounts {
		r.number++
		// How many of the accounts up to this one fail.
		until := func(n int) int { return int(int64(n) * int64(r.failing) / int64(r.accounts)) }
		nth := until(r.number)
		kind, suffix := "feed", ".xml"
		if r.number%5 == 0 {
			kind, suffix = "http", ""
		}
		host, path, cadence := "site-"+strconv.Itoa(r.number%healthyHosts)+".example.com", "new", "every 30m"
		if nth > until(r.number-1) {
			// Half of those that fail are at eight hosts.
			at := nth % failingHosts
			if nth%2 == 0 {
				at = nth / 2 % 8
			}
			path = failingPaths[nth/7%len(failingPaths)]
			host, cadence = "trouble-"+strconv.Itoa(at)+".example.net", "every 1m"
		}
		number := strconv.Itoa(10_000_000 + r.number)
		r.text.WriteString(`{"id":"` + kind + `-` + number + `","kind":"` + kind + `","config":{"url":"https://` + host + `/` + path + `/` + number + suffix +
			`"},"cadence":"` + cadence + `","labels":{"team":"team-` + number[len(number)-1:] + `"}}` + "\n")
	}
	return r.text.Read(p)
}
