package sample

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestUpstreamHasMessages(t *testing.T) {
	s, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	base := "http://" + s.Addr()
	feed, err := http.Get(base + "/feed/feed-1")
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Body.Close()
	if body, err := io.ReadAll(feed.Body); err != nil || !strings.Contains(string(body), "<guid>feed-1/1</guid>") {
		t.Errorf("got %s, %v", body, err)
	}
	for cursor, want := range map[string]string{"": "connector-1/1", "1000000": ""} {
		answer, err := http.Post(base+"/connector/connector-1", "application/json", bytes.NewReader([]byte(`{"cursor":"`+cursor+`","limit":1}`)))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		var page struct {
			Messages []struct{ ID string }
			Next     string `json:"next_cursor"`
		}
		if err := json.NewDecoder(answer.Body).Decode(&page); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range page.Messages {
			got += m.ID
		}
		if got != want || page.Next == "" {
			t.Errorf("after %q: got %+v, want %q", cursor, page, want)
		}
	}
	answer, err := http.Post(base+"/connector/connector-1", "application/json", strings.NewReader("{"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("half a request is answered %d", answer.StatusCode)
	}
}
