package service

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// Everything that a service has to do without an account is passing, and an account is not.
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

// A directory has a namespace from one process to the next, and nobody else meanwhile.
func TestNamespaceInADirectory(t *testing.T) {
	s := settings.Redis{DataDir: filepath.Join(t.TempDir(), "data"), DataGiven: true, DataWithin: time.Hour}
	own, err := openKept(t.Context(), s, "v1", "rounds serve", slog.New(slog.DiscardHandler))
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
