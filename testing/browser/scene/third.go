package scene

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/sample/ilink"
)

// ThirdParty answers for every host. What it answers is in the address, so that an
// account is put right by another address:
//
//	/feeds/ID         a feed of news
//	/connector/ID     a connector of the http kind
//	/status/CODE/ID   that status
//	/slow/ID          429 with Retry-After
//	/page/ID          a page of HTML, where a feed should be
//	/refused/ID       a connector's error of the kind auth
//	/hooks/ID, /in    receivers of webhooks: the first accepts, the second does not
//	/said/ID          what Say has set
//	/sent/ID          takes what an account sends; see Sent
//	/ilink/           WeChat
type ThirdParty struct {
	WeChat *ilink.Ilink // whose phones the caller plays

	http     *http.Server
	listener net.Listener
	born     time.Time

	mu   sync.Mutex
	said map[string]Answer
	sent map[string][]string
}

// Answer is what a third party answers to every request for an address.
type Answer struct {
	Status int
	Type   string // Content-Type
	Body   string
}

func startThirdParty() (*ThirdParty, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &ThirdParty{WeChat: ilink.New(ilink.Options{}), listener: listener, born: time.Now(), said: make(map[string]Answer), sent: make(map[string][]string)}
	mux := http.NewServeMux()
	mux.HandleFunc("/feeds/{id}", p.feed)
	mux.HandleFunc("/connector/{id}", p.connector)
	mux.HandleFunc("/status/{code}/{id}", status)
	mux.HandleFunc("/slow/{id}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "40")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	mux.HandleFunc("/page/{id}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, Answer{http.StatusOK, "text/html", "<!doctype html><title>We have moved</title><p>Our news are elsewhere now."})
	})
	mux.HandleFunc("/refused/{id}", func(w http.ResponseWriter, _ *http.Request) {
		write(w, Answer{http.StatusOK, "application/json", `{"error":{"kind":"auth","code":"password","message":"the mailbox refused the password"}}`})
	})
	mux.HandleFunc("/hooks/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/in", func(w http.ResponseWriter, _ *http.Request) {
		write(w, Answer{http.StatusInternalServerError, "text/plain", "the archive's disk is full"})
	})
	mux.HandleFunc("/said/{id}", p.answer)
	mux.HandleFunc("/sent/{id}", p.take)
	mux.Handle("/ilink/", p.WeChat)
	p.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = p.http.Serve(listener) }() // it ends with close
	return p, nil
}

func (p *ThirdParty) proxy() string { return "http://" + p.listener.Addr().String() }

func (p *ThirdParty) close() { _ = p.http.Close() }

// Say sets what /said/ID answers, on every host.
func (p *ThirdParty) Say(id string, a Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said[id] = a
}

func (p *ThirdParty) answer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	a, ok := p.said[r.PathValue("id")]
	p.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	write(w, a)
}

// take is the send_url of a connector, which accepts every text and every file.
func (p *ThirdParty) take(w http.ResponseWriter, r *http.Request) {
	var send struct {
		To   string                         `json:"to"`
		Data struct{ Text, Caption string } `json:"data"`
		File struct{ Name string }          `json:"file"`
	}
	if err := json.NewDecoder(r.Body).Decode(&send); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, said := r.PathValue("id"), send.To+": "+send.Data.Text+send.Data.Caption
	if send.File.Name != "" {
		said += " (" + send.File.Name + ")"
	}
	p.mu.Lock()
	p.sent[id] = append(p.sent[id], said)
	p.mu.Unlock()
	write(w, Answer{http.StatusOK, "application/json", `{}`})
}

// Sent returns what /sent/ID has taken on all hosts, in order, each with whom it is for, and the name of
// its file: "anna: hello (cat.png)".
func (p *ThirdParty) Sent(id string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sent[id])
}

func write(w http.ResponseWriter, a Answer) {
	w.Header().Set("Content-Type", a.Type)
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body)) // a client that has hung up misses nothing
}

func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.PathValue("code"))
	if err != nil || code < 200 || code > 599 {
		code = http.StatusNotFound
	}
	w.WriteHeader(code)
}

// pace is the time between two messages of an account: 20 s to about 3 min.
func pace(id string) time.Duration {
	return 20*time.Second + time.Duration(crc32.ChecksumIEEE([]byte(id))%150)*time.Second
}

// posted returns how many messages an account has; it had some before.
func (p *ThirdParty) posted(id string) int { return 2 + int(time.Since(p.born)/pace(id)) }

// headlines are what feeds and customers write.
var headlines = []string{
	"Harbour tunnel opens a month early", "City council votes on the night bus", "图书馆周末延长开放时间", "Ferry timetable for the winter",
	"Three schools share one workshop", "What the new recycling rules change", "地铁二号线恢复运营", "A bakery that delivers by tram",
}

func (p *ThirdParty) feed(w http.ResponseWriter, r *http.Request) {
	id := r.Host + "/" + r.PathValue("id")
	type item struct {
		Title string `xml:"title"`
		Link  string `xml:"link"`
		GUID  string `xml:"guid"`
		Date  string `xml:"pubDate"`
	}
	feed := struct {
		XMLName xml.Name `xml:"rss"`
		Version string   `xml:"version,attr"`
		Title   string   `xml:"channel>title"`
		Items   []item   `xml:"channel>item"`
	}{Version: "2.0", Title: "News of " + r.Host}
	for n := p.posted(id); n > 0 && len(feed.Items) < 10; n-- {
		link := fmt.Sprintf("http://%s/%d", id, n)
		at := p.born.Add(time.Duration(n-2) * pace(id))
		feed.Items = append(feed.Items, item{headlines[(n+len(id))%len(headlines)], link, link, at.Format(time.RFC1123Z)})
	}
	w.Header().Set("Content-Type", "application/rss+xml")
	_ = xml.NewEncoder(w).Encode(feed)
}

func (p *ThirdParty) connector(w http.ResponseWriter, r *http.Request) {
	id := r.Host + "/" + r.PathValue("id")
	var request struct {
		Cursor string `json:"cursor"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	read, _ := strconv.Atoi(request.Cursor) // none at first: from the beginning
	messages := []map[string]any{}
	last := p.posted(id)
	for n := read + 1; n <= last && len(messages) < 50; n++ {
		messages = append(messages, map[string]any{
			"id": fmt.Sprintf("%s-%d", strings.ReplaceAll(r.PathValue("id"), "/", "-"), n), "type": "text",
			"time": p.born.Add(time.Duration(n-2) * pace(id)).UTC().Format(time.RFC3339),
			"data": map[string]any{"from": fmt.Sprintf("customer-%d", n*7%40), "text": headlines[n%len(headlines)] + "?", "attachments": n % 3},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": strconv.Itoa(read + len(messages)), "has_more": false})
}
