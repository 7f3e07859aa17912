// Package sample is an upstream for the demo: feeds and connectors on loopback that have
// something new every few seconds.
package sample

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Upstream is a third party. Each of its accounts has a new message every few seconds,
// made from the time of day.
type Upstream struct {
	addr string
	http *http.Server
	born time.Time
}

// Start listens at a free port of loopback.
func Start() (*Upstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Upstream{addr: listener.Addr().String(), born: time.Now()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /feed/{id}", s.feed)
	mux.HandleFunc("POST /connector/{id}", s.connector)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the demo cannot run without it
		}
	}()
	return s, nil
}

// Addr returns where it listens, as HOST:PORT.
func (s *Upstream) Addr() string { return s.addr }

// Close ends the upstream.
func (s *Upstream) Close() { _ = s.http.Close() }

// posted returns how many messages an account has so far; the first is there at once.
func (s *Upstream) posted(id string) int {
	return 1 + int(time.Since(s.born)/pace(id))
}

// pace returns the time between two messages of an account: 3 to 7 s.
func pace(id string) time.Duration {
	return 3*time.Second + time.Duration(id[len(id)-1]%5)*time.Second
}

func (s *Upstream) postedAt(id string, n int) time.Time {
	return s.born.Add(time.Duration(n-1) * pace(id))
}

func (s *Upstream) feed(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	type item struct {
		Title string `xml:"title"`
		GUID  string `xml:"guid"`
		Date  string `xml:"pubDate"`
	}
	feed := struct {
		XMLName xml.Name `xml:"rss"`
		Version string   `xml:"version,attr"`
		Title   string   `xml:"channel>title"`
		Items   []item   `xml:"channel>item"`
	}{Version: "2.0", Title: "Sample " + id}
	for n := s.posted(id); n > 0 && len(feed.Items) < 20; n-- {
		feed.Items = append(feed.Items, item{
			fmt.Sprintf("News %d of %s", n, id), fmt.Sprintf("%s/%d", id, n), s.postedAt(id, n).Format(time.RFC1123Z),
		})
	}
	w.Header().Set("Content-Type", "application/rss+xml")
	_ = xml.NewEncoder(w).Encode(feed) // a client that has hung up misses nothing
}

func (s *Upstream) connector(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	var request struct {
		Cursor string `json:"cursor"`
		Limit  int    `json:"limit"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	read, _ := strconv.Atoi(request.Cursor) // none at first: from the beginning
	type message struct {
		ID   string    `json:"id"`
		Type string    `json:"type"`
		Time time.Time `json:"time"`
		Data any       `json:"data"`
	}
	messages := []message{}
	for n := read + 1; n <= s.posted(id) && len(messages) < max(1, request.Limit); n++ {
		messages = append(messages, message{
			fmt.Sprintf("%s/%d", id, n), "text", s.postedAt(id, n), map[string]string{"text": fmt.Sprintf("Hello %d from %s", n, id)},
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"messages": messages, "next_cursor": strconv.Itoa(read + len(messages)), "has_more": false})
}
