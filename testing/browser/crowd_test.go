package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/poller"
)

const (
	crowdClasses = 40  // of failing accounts, each at a host of its own
	crowdShift   = 200 // accounts with the same label shift
	loudOrders   = 100 // messages that each check of /loud finds
)

// crowdCauses are why accounts fail. A host fails for one of them.
var crowdCauses = []struct {
	code, text string
	kind       poller.ErrorKind
}{
	{"http_401", "the host answered 401 Unauthorized", poller.AuthFailed},
	{"http_404", "the host answered 404 Not Found", poller.Transient},
	{"http_500", "the host answered 500 Internal Server Error", poller.Transient},
	{"html", "the address answers a page, not a feed", poller.Protocol},
	{"not_a_feed", "the answer is no feed", poller.Protocol},
	{"backend", "the order could not be read", poller.Transient},
	{"timeout", "no answer within the time limit", poller.Transient},
	{"http_503", "the host answered 503 Service Unavailable", poller.Transient},
}

// crowdHost is the host of a class. The first of every eight classes is refused with 401.
func crowdHost(class int) string { return fmt.Sprintf("site-%02d.example", class) }

// crowd is accounts of a kind that asks nobody, as records to import, one a line. Of every n accounts one
// fails, so that so many do in all, and each class has as many as another. The accounts at the beginning
// have a label shift, crowdShift each.
type crowd struct {
	accounts, failing, shifts int

	number, failed int
	text           bytes.Buffer
}

// Read returns the next bytes.
func (c *crowd) Read(p []byte) (int, error) {
	for c.text.Len() < len(p) && c.number < c.accounts {
		host, labels := fmt.Sprintf("shop-%d.example", c.number%5000), ""
		if c.number/crowdShift < c.shifts {
			labels = fmt.Sprintf(`,"labels":{"shift":"shift-%d"}`, c.number/crowdShift)
		} else if want := int(int64(c.number+1) * int64(c.failing) / int64(c.accounts)); want > c.failed {
			host = crowdHost(c.failed % crowdClasses)
			c.failed++
		}
		_, _ = fmt.Fprintf(&c.text, `{"id":"shop-%07d","kind":"shop","config":{"url":"http://%s/%d"},"cadence":"every 6h"%s}`+"\n", c.number, host, c.number, labels)
		c.number++
	}
	if c.text.Len() == 0 {
		return 0, io.EOF
	}
	return c.text.Read(p)
}

// shop is the crowd's kind. Its accounts' addresses say how checks end.
type shop struct {
	hangs bool // checks of /hangs never end: the process is to be killed with them
}

// shops returns the kind for a scene.
func shops(hangs bool) []service.Kind {
	return []service.Kind{func(service.Tools) (poller.Checker, error) { return shop{hangs}, nil }}
}

func (shop) Kind() string { return "shop" }

func (shop) Validate(json.RawMessage) error { return nil }

func (shop) RateKey(config json.RawMessage) string { return shopAddress(config).Host }

func (s shop) Check(ctx context.Context, r poller.Request) (poller.Result, error) {
	at := shopAddress(r.Config)
	if s.hangs && at.Path == "/hangs" {
		<-ctx.Done()
		return poller.Result{}, ctx.Err()
	}
	var class int
	if _, err := fmt.Sscanf(at.Host, "site-%d.example", &class); err == nil {
		cause := crowdCauses[class%len(crowdCauses)]
		return poller.Result{}, &poller.CheckError{Kind: cause.kind, Scope: poller.ScopeAccount, Code: cause.code, Message: cause.text}
	}
	loud := at.Path == "/loud"
	if r.Cursor != nil && !loud {
		return poller.Result{}, nil
	}
	checks, _ := strconv.Atoi(string(r.Cursor)) // none at first
	data, err := json.Marshal(map[string]string{"text": "an order of " + strings.TrimPrefix(at.Path, "/")})
	found := poller.Result{Cursor: []byte(strconv.Itoa(checks + 1))}
	orders := 1
	if loud {
		orders = loudOrders
	}
	for n := range orders {
		found.Messages = append(found.Messages, poller.Message{ID: fmt.Sprintf("%d-%d", checks, n), Type: "text", Time: time.Now(), Data: data})
	}
	return found, err
}

func shopAddress(config json.RawMessage) *url.URL {
	var c struct{ URL string }
	_ = json.Unmarshal(config, &c) // the test has made it
	at, err := url.Parse(c.URL)
	if err != nil {
		return &url.URL{}
	}
	return at
}
