package main

import (
	"os"
	"testing"
)

const readme = "../README.md"

// TestSearches explores package circulate completely, within several bounds, and expects
// as many states as are published.
func TestSearches(t *testing.T) {
	published, _, err := readPublished(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range searches() {
		if !s.short {
			continue
		}
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			config, err := s.config()
			if err != nil {
				t.Fatal(err)
			}
			config.Replays = 10
			r := find(t, config)
			if r.Fault != "" {
				t.Fatalf("%s\n%s", r.Fault, r.Text)
			}
			if !r.Complete || r.Replayed != 10 {
				t.Errorf("%+v", r)
			}
			if want := published[s.String()]; r.States != want {
				t.Errorf("%d states, published are %d: go run ./testing/explore --published %s", r.States, want, "testing/README.md")
			}
		})
	}
}

// TestPublished checks that testing/README.md has exactly these searches.
func TestPublished(t *testing.T) {
	published, table, err := readPublished(readme)
	if err != nil {
		t.Fatal(err)
	}
	want := tableHead
	for _, s := range searches() {
		if published[s.String()] == 0 {
			t.Errorf("no number of states is published of: %s", s)
		}
		want += s.line(published[s.String()])
	}
	if table != want {
		t.Errorf("the page has\n%s\nand not\n%s", table, want)
	}
}

func TestPublish(t *testing.T) {
	page := t.TempDir() + "/page.md"
	if err := os.WriteFile(page, []byte("# Title\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readPublished(page); err == nil {
		t.Error("a page without a table was read")
	}
	if got := grouped(1234567) + " " + grouped(123) + " " + grouped(1000); got != "1,234,567 123 1,000" {
		t.Errorf("grouped: %s", got)
	}
}
