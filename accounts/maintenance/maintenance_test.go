package maintenance_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/maintenance"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestWindowsFaults(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	good := maintenance.Window{Name: "disks", Host: "a.example", From: now, Until: now.Add(time.Hour), Reason: "new disks"}
	if err := good.Validate(now); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(w *maintenance.Window){
		"name":   func(w *maintenance.Window) { w.Name = "a b" },
		"host":   func(w *maintenance.Window) { w.Host = "" },
		"host ":  func(w *maintenance.Window) { w.Host = "https://a.example" },
		"labels": func(w *maintenance.Window) { w.Labels = map[string]string{"": "v"} },
		"reason": func(w *maintenance.Window) { w.Reason = " " },
		"from":   func(w *maintenance.Window) { w.From = now.Add(91 * 24 * time.Hour); w.Until = w.From.Add(time.Hour) },
		"until":  func(w *maintenance.Window) { w.Until = now },
		"until ": func(w *maintenance.Window) { w.Until = now.Add(30*24*time.Hour + 1) },
	} {
		w := good
		change(&w)
		var faults accounts.Faults
		if err := w.Validate(now); !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != strings.TrimSpace(want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestWhomAWindowCovers(t *testing.T) {
	t.Parallel()
	a := accounts.Account{Labels: map[string]string{"team": "press", "env": "prod"}}
	for _, c := range []struct {
		host   string
		labels map[string]string
		where  string
		shared string
		want   bool
	}{
		{"a.example", nil, "a.example", "", true},
		{"a.example", nil, "a.example:8443", "", true},
		{"a.example:8443", nil, "a.example:8443", "", true},
		{"a.example:8443", nil, "a.example", "", false},
		{"a.example", nil, "b.example", "", false},
		{"api.example", nil, "", "API.example", true},
		{"", map[string]string{"team": "press"}, "", "", true},
		{"", map[string]string{"team": "press", "env": "test"}, "", "", false},
		{"", map[string]string{"tier": ""}, "", "", false},
		{"a.example", map[string]string{"team": "press"}, "b.example", "", false},
		{"", nil, "", "", false},
	} {
		w := maintenance.Window{Host: c.host, Labels: c.labels}
		if got := w.Covers(&a, c.where, c.shared); got != c.want {
			t.Errorf("%q %v covers %q, %q: %v", c.host, c.labels, c.where, c.shared, got)
		}
	}
}

func TestStoredWindows(t *testing.T) {
	t.Parallel()
	ring, err := circulate.Open(t.Context(), redistest.Embedded(t), circulate.Options{Namespace: "ns", Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	windows, ctx := maintenance.Of(ring), t.Context()
	until := time.Now().Add(time.Hour)
	for _, name := range []string{"b", "a"} {
		w, err := windows.Put(ctx, maintenance.Window{Name: name, Host: "NEWS.Example", Until: until, Reason: " why ", By: "eve"})
		if err != nil || w.From.IsZero() || w.Host != "news.example" || w.Reason != "why" {
			t.Fatalf("%+v, %v", w, err)
		}
	}
	all, now, err := windows.All(ctx)
	if err != nil || len(all) != 2 || all[0].By != "eve" || !all[0].Open(now) || all[0].Open(until.Add(time.Second)) {
		t.Fatalf("%+v, %v", all, err)
	}
	if there, err := windows.Remove(ctx, "a"); err != nil || !there {
		t.Error(there, err)
	}
	if stored, err := windows.Stored(ctx); err != nil || len(stored) != 1 || stored[0].Name != "b" {
		t.Errorf("%+v, %v", stored, err)
	}
}
