package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// Keys that change without any account are passing, and keys of accounts are not.
func TestPassing(t *testing.T) {
	for _, key := range []string{"rounds:replicas", "{rounds:replicas}:left", "{rounds:00}:clock", "rounds:bulletins", "rounds:series:10s"} {
		if !passing(key) {
			t.Errorf("%s is saved at once", key)
		}
	}
	for _, key := range []string{"", ":", "clock", "rounds:meta", "{rounds:00}:schedule", "{rounds:00}:accounts", "{clock:00}:tickets", "{rounds:00}:x:clock"} {
		if passing(key) {
			t.Errorf("%s is saved late", key)
		}
	}
}

// A directory carries a namespace from one process to the next. No other process can use it
// meanwhile.
func TestNamespaceInADirectory(t *testing.T) {
	s := settings.Redis{DataDir: filepath.Join(t.TempDir(), "data"), DataGiven: true, DataWithin: time.Hour}
	own, err := openOwn(t.Context(), s, "v1", "rounds serve", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := circulate.Open(t.Context(), own, circulate.Options{Namespace: "here", Shards: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ring.Account("a").Register(t.Context(), circulate.Registration{ID: "a", Record: []byte(`{"id":"a","kind":"plain"}`), Due: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenNamespace(t.Context(), s, "here"); err == nil {
		t.Error("a command has the directory of a process that serves")
	}
	if err := own.Close(); err != nil {
		t.Fatal(err)
	}
	there, err := OpenNamespace(t.Context(), s, "here")
	if err != nil {
		t.Fatal(err)
	}
	found, err := there.Look(t.Context())
	if err != nil || found.Accounts != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if err := there.Close(); err != nil {
		t.Fatal(err)
	}
	s.DataGiven = false
	if _, err := OpenNamespace(t.Context(), s, "here"); err == nil {
		t.Error("a command without a Redis takes a directory that nobody named")
	}
}

// Readiness, stats, concerns and metrics report a directory that cannot be written and a file that
// was damaged, as long as that lasts.
func TestDataConcerns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data")
	s := settings.Redis{DataDir: path, DataGiven: true, DataWithin: time.Hour}
	opened := func() *ownRedis {
		t.Helper()
		own, err := openOwn(t.Context(), s, "v1", "rounds serve", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return own
	}
	set := func(own *ownRedis, value int) {
		t.Helper()
		conn, err := own.Conn(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := conn.Do("SET", "value", value); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 { // the newest, and one before it
		own := opened()
		set(own, n)
		if err := own.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(path, "data.zst"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := opened()
	defer func() { _ = own.Close() }()
	storage := &store{server: own}
	expect := func(codes ...string) {
		t.Helper()
		var got []string
		for _, c := range storage.data(t.Context()).Concerns {
			got = append(got, c.Concern)
			if c.Node != path || c.Text == "" {
				t.Errorf("%+v", c)
			}
		}
		if !slices.Equal(got, codes) {
			t.Errorf("concerns %v, want %v", got, codes)
		}
		if fails := storage.failing() != nil; fails != slices.Contains(codes, "unsaved") {
			t.Errorf("not ready: %v", fails)
		}
	}
	if d := storage.data(t.Context()); d.Forgets || d.Dir != path {
		t.Errorf("%+v", d)
	}
	expect("damaged")
	aside, err := filepath.Glob(filepath.Join(path, "data.damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Fatal(aside, err)
	}
	if err := os.Remove(aside[0]); err != nil {
		t.Fatal(err)
	}
	expect()
	// A directory where the file should be: nobody can write it, root neither.
	blocked := filepath.Join(path, "data.new.zst")
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	set(own, 7)
	if err := own.dir.Save(); err == nil {
		t.Fatal("it was saved")
	}
	expect("unsaved")
	registry := prometheus.NewRegistry()
	own.export(registry)
	metrics, err := registry.Gather()
	if err != nil || len(metrics) != 7 {
		t.Errorf("%d metrics, %v", len(metrics), err)
	}
	for _, m := range metrics {
		if g := m.GetMetric()[0].GetGauge(); m.GetName() == "rounds_data_unsaved" && g.GetValue() != 1 {
			t.Errorf("%v", m)
		}
	}
	if err := os.RemoveAll(blocked); err != nil {
		t.Fatal(err)
	}
	if err := own.dir.Save(); err != nil {
		t.Fatal(err)
	}
	expect()
}
