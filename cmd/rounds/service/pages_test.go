package service

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// TestPagesAreServedUnlessTheyAreLeftOut asks for / where ROUNDS_DASHBOARD is set and unset.
func TestPagesAreServedUnlessTheyAreLeftOut(t *testing.T) {
	for setting, want := range map[string]struct {
		status int
		says   string
	}{"": {http.StatusOK, "<title>Overview · rounds</title>"}, "false": {http.StatusNotFound, "there is no such route"}} {
		s, err := read(map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_ROLES": "api", "ROUNDS_DASHBOARD": setting, "ROUNDS_SHARDS": "1"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		serving, ended := make(chan string, 1), make(chan error, 1)
		go func() {
			ended <- Run(ctx, s, Options{Log: slog.New(slog.DiscardHandler), Lookup: lookupIn(nil), Serving: func(addr string) { serving <- addr }})
		}()
		address := "http://" + <-serving + "/"
		status, body := http.StatusServiceUnavailable, ""
		for status == http.StatusServiceUnavailable { // until it is ready
			status, body = get(t, address)
		}
		if status != want.status || !strings.Contains(body, want.says) {
			t.Errorf("ROUNDS_DASHBOARD=%s: %d %.200s", setting, status, body)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func get(t *testing.T, address string) (status int, body string) {
	t.Helper()
	answer, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}
