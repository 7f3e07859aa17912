package webhook

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// The defaults and limits of an endpoint's settings. The specification recommends a time-out
// between 15 and 30 s.
const (
	defaultTimeout     = 15 * time.Second
	defaultConcurrency = 8

	minTimeout     = time.Second
	maxTimeout     = 30 * time.Second
	maxConcurrency = 256
	maxSecrets     = 8
	maxKinds       = 64
)

// Endpoint is where messages are delivered to.
type Endpoint struct {
	Name        string        // 1 to 56 of a-z 0-9 _ -; it names the consumer group, so another name starts anew
	URL         string        // http or https
	Secrets     []secrets.Ref // the signing keys, 1 to 8: base64 of 24 to 64 bytes, with or without whsec_
	Kinds       []string      // the kinds of accounts whose messages it gets; none: all
	Format      sink.Format   // of the bodies
	Events      bool          // it also gets events: what becomes of the sends of these accounts
	Ordered     bool          // see the package's doc
	Timeout     time.Duration // for one attempt, 1 to 30 s; 0: defaultTimeout
	Concurrency int           // attempts at once in a process, 1 to 256; 0: defaultConcurrency
	Headers     []Header      // further headers of each request, 32 at most
	Revision    int64         // of an endpoint that was added while the service runs; 0: it is declared
}

// Group returns the name of the endpoint's consumer group; see sink.Endpoint.
func (e Endpoint) Group() string { return sink.Endpoint{Name: e.Name}.Group() }

// wants reports whether the endpoint gets messages of a kind of account.
func (e Endpoint) wants(kind string) bool {
	return len(e.Kinds) == 0 || slices.Contains(e.Kinds, kind)
}

var namePattern = regexp.MustCompile(`^[a-z0-9_-]{1,56}$`)

// Uses returns the secrets to which the endpoint refers.
func (e Endpoint) Uses() (all []sink.Use) {
	for i, ref := range e.Secrets {
		if !ref.IsZero() {
			all = append(all, sink.Use{Field: "secrets[" + strconv.Itoa(i) + "]", Name: ref.Name})
		}
	}
	for _, h := range e.Headers {
		if !h.Secret.IsZero() {
			all = append(all, sink.Use{Field: "headers." + strict.Printable(h.Name), Name: h.Secret.Name, Sent: true})
		}
	}
	return all
}

// check adds the faults of an endpoint. No fault quotes a value: a value in the wrong place may
// be a secret.
func (e Endpoint) check(r *strict.Reader, client Client) {
	switch {
	case e.Name == "":
		r.Fault("name", "missing")
	case !namePattern.MatchString(e.Name):
		r.Fault("name", "must be 1 to 56 of a-z 0-9 _ -")
	}
	if e.URL == "" {
		r.Fault("url", "missing")
	} else if err := client.Validate(e.URL); err != nil {
		r.Fault("url", err.Error())
	}
	e.checkSecrets(r)
	if len(e.Kinds) > maxKinds {
		r.Fault("kinds", "must be at most "+strconv.Itoa(maxKinds))
	}
	if slices.Contains(e.Kinds, "") {
		r.Fault("kinds", "must not have an empty one")
	}
	if e.Timeout != 0 && (e.Timeout < minTimeout || e.Timeout > maxTimeout) {
		r.Fault("timeout", "must be "+minTimeout.String()+" to "+maxTimeout.String())
	}
	if e.Concurrency < 0 || e.Concurrency > maxConcurrency {
		r.Fault("concurrency", "must be 1 to "+strconv.Itoa(maxConcurrency))
	}
	checkHeaders(r, e.Headers)
}

func (e Endpoint) checkSecrets(r *strict.Reader) {
	if len(e.Secrets) == 0 {
		r.Fault("secrets", "missing: every delivery is signed")
	}
	if len(e.Secrets) > maxSecrets {
		r.Fault("secrets", "must be at most "+strconv.Itoa(maxSecrets))
	}
	for i, ref := range e.Secrets {
		if ref.IsZero() {
			r.Fault("secrets["+strconv.Itoa(i)+"]", "missing")
		}
	}
}

var _ Client = (*fetch.Client)(nil)

// Header is sent with each delivery. It has a value or refers to a secret. A header that looks
// like a credential must refer to a secret.
type Header struct {
	Name   string
	Value  string
	Secret secrets.Ref
}

// checkHeaders notes what is wrong with an endpoint's headers.
func checkHeaders(r *strict.Reader, headers []Header) {
	if len(headers) > fetch.MaxHeaders {
		r.Fault("headers", "must be at most "+strconv.Itoa(fetch.MaxHeaders))
		return
	}
	seen := make(map[string]bool)
	for _, h := range headers {
		lower, field := strings.ToLower(h.Name), "headers."+strict.Printable(h.Name)
		misnamed := fetch.HeaderNameFault(h.Name)
		switch {
		case misnamed != "":
			r.Fault(field, misnamed)
		case seen[lower]:
			r.Fault(field, "comes twice")
		case h.Secret.IsZero() && fetch.CredentialHeader(lower):
			r.Fault(field, refFault(secrets.ErrNotReference))
		case !h.Secret.IsZero() && h.Value != "":
			r.Fault(field, "must have a value or refer to a secret, not both")
		case !fetch.ValidHeaderValue(h.Value):
			r.Fault(field, "must be one line of at most "+strconv.Itoa(fetch.MaxHeaderValue)+" bytes")
		}
		seen[lower] = true
	}
}
