package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

// holds writes messages of an account with these texts into its stream.
func (f *fixture) holds(account, kind string, data ...string) {
	f.Helper()
	key := f.ring.Streams().Keys(f.ring.ShardOf(account)).Messages
	conn, err := f.redis.Conn(f.Context(), key)
	if err != nil {
		f.Fatal(err)
	}
	defer conn.Close()
	for i, one := range data {
		if _, err := conn.Do("XADD", key, "*", "account", account, "kind", kind, "id", fmt.Sprintf("%s%d", account, i), "type", "note", "time", "", "data", one); err != nil {
			f.Fatal(err)
		}
	}
}

func foundIDs(found MessageSearch) string { return idsOf(MessageList{Messages: found.Messages}) }

func TestSearchMessages(t *testing.T) {
	f := newFixture(t, func(o *Options) {
		o.Sending = func(kind string, _ json.RawMessage) Sending {
			if kind != "chat" {
				return Sending{}
			}
			return Sending{Prepare: func(o *Outgoing, m *circulate.Message) error {
				o.Peer = "Peer-" + m.ID
				return nil
			}}
		}
	})
	f.holds("a", "plain", `{"text":"Invoice 1"}`, `{"text":"other"}`, `{"text":"\u4f60\u597d invoice","from":"Anna"}`)
	f.holds("c", "chat", `{"text":"invoice of a chat"}`)
	for query, want := range map[string]string{
		"account=a":                           "a2 a1 a0",
		"text=INVOICE&account=a":              "a2 a0",
		"text=%E4%BD%A0%E5%A5%BD":             "a2",
		"text=text":                           "",
		"text=invoice&sender=ann":             "a2",
		"sender=peer-c":                       "c0",
		"text=invoice&kind=chat":              "c0",
		"text=invoice&kind=chat&type=other":   "",
		"account=a&to=1h":                     "",
		"account=a&from=1h":                   "a2 a1 a0",
		"account=a&from=2099-01-01T00:00:00Z": "",
	} {
		var found MessageSearch
		got := f.call("GET", "/v1/messages:search?"+query, "", 200, &found)
		if foundIDs(found) != want || found.Next != "" || found.Of < found.Looked || found.Messages == nil {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	var first, second, last MessageSearch
	f.call("GET", "/v1/messages:search?account=a&limit=2", "", 200, &first)
	f.call("GET", "/v1/messages:search?account=a&limit=2&before="+first.Next, "", 200, &second)
	if foundIDs(first) != "a2 a1" || foundIDs(second) != "a0" || first.Looked < 2 || first.Of < 3 {
		t.Errorf("in pages: %+v, then %+v", first, second)
	}
	f.call("GET", "/v1/messages:search?account=a&wait=1ns&text=none", "", 200, &first) // it has looked at one part, and there may be more
	if first.Next == "" || first.Looked == 0 || first.Reached.IsZero() {
		t.Errorf("a short wait: %+v", first)
	}
	f.call("GET", "/v1/messages:search?account=a&text=none&before="+first.Next, "", 200, &last)
	if last.Next != "" || len(last.Messages) > 0 {
		t.Errorf("and on: %+v", last)
	}
	for query, name := range map[string]string{
		"limit=0": "query.limit", "before=x": "query.before", "from=soon": "query.from", "to=x": "query.to", "wait=1h": "query.wait", "wait=x": "query.wait",
		"odd=1": "query.odd", "text=" + strings.Repeat("x", 1025): "query.text", "sender=" + strings.Repeat("x", 1025): "query.sender",
	} {
		if got := f.call("GET", "/v1/messages:search?"+query, "", 422, nil); !strings.Contains(got.body, `"`+name+`"`) {
			t.Errorf("%.40s: %s", query, got.body)
		}
	}
	f.api.searching.Store(searchesMost)
	if got := f.call("GET", "/v1/messages:search", "", 503, nil); !strings.Contains(got.body, "searches are under way") || got.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %s", got.body)
	}
	f.api.searching.Store(0)
}

func TestSearchStreams(t *testing.T) {
	f := newFixture(t, nil)
	var data []string
	for i := range 30 {
		data = append(data, fmt.Sprintf(`{"text":"number %d"}`, i))
	}
	f.holds("a", "plain", data...)
	events := func(query, last string) (names []string, ids string, end SearchProgress) {
		ctx, cancel := context.WithCancel(f.Context())
		defer cancel()
		r := f.request("GET", "/v1/messages:search?"+query, "").WithContext(ctx)
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		if reply.StatusCode != 200 || reply.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(reply.Status)
		}
		name := ""
		for lines := bufio.NewScanner(reply.Body); lines.Scan(); {
			line := lines.Text()
			if text, ok := strings.CutPrefix(line, "event: "); ok {
				name = text
			}
			if line == "" {
				name = ""
			}
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				names = append(names, name)
				if name == "" {
					var m Message
					if err := json.Unmarshal([]byte(text), &m); err != nil {
						t.Fatal(err)
					}
					ids += m.ID + " "
					continue
				}
				end = SearchProgress{} // a field that is left out is empty
				if err := json.Unmarshal([]byte(text), &end); err != nil {
					t.Fatal(err)
				}
			}
		}
		return names, ids, end
	}
	names, ids, end := events("account=a&text=number&limit=3", "")
	if ids != "a29 a28 a27 " || names[len(names)-1] != "end" || end.Next == "" || end.Looked != 3 {
		t.Errorf("a page: %v %q %+v", names, ids, end)
	}
	if _, ids, end = events("account=a&text=number+2", end.Next); ids != "a26 a25 a24 a23 a22 a21 a20 a2 " || end.Next != "" {
		t.Errorf("and on, by the id of the last event: %q %+v", ids, end)
	}
	if f.api.searching.Load() != 0 {
		t.Error("a search that has ended counts on")
	}
}
