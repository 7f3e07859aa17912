//go:build night

package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/mutants"
	"github.com/rounds-dev/rounds/testing/processes"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// TestADoubledSendIsFound runs a service that sends again by itself what may have arrived. Of each kind
// some sends then arrive twice, but for a third party that takes each once.
func TestADoubledSendIsFound(t *testing.T) {
	redistest.LookPath(t)
	dir := t.TempDir()
	binary, err := processes.Build(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := mutants.Break(binary, filepath.Join("..", "..", "circulate"), "what is unknown is sent again by itself"); err != nil {
		t.Fatal(err)
	}
	findings, err := run(t.Context(), dir, plan{length: 25 * time.Second, accounts: 120, mailboxes: 4, seed: 1, binary: binary, onlyCuts: true})
	if err != nil {
		t.Fatal(err)
	}
	sends := 0
	for _, f := range findings {
		if !strings.HasPrefix(f.expected, "every send of ") {
			continue
		}
		sends++
		t.Logf("%s: %s", f.expected, f.found)
		once := strings.Contains(f.expected, "deduplicates")
		if doubled := !strings.Contains(f.found, "; 0 there twice"); doubled == once || f.holds != once {
			t.Errorf("a send is there twice: %v, and what is expected holds: %v", doubled, f.holds)
		}
	}
	if sends != 5 {
		t.Errorf("%d kinds of accounts send", sends)
	}
}

// TestSpoiledMailIsFound runs with a mail server that hides mails and gives others twice.
func TestSpoiledMailIsFound(t *testing.T) {
	redistest.LookPath(t)
	findings, err := run(t.Context(), t.TempDir(), plan{length: 20 * time.Second, accounts: 50, mailboxes: 4, seed: 1, spoilsMails: true, patience: 40 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if strings.HasPrefix(f.expected, "every mail of ") {
			t.Logf("%s: %s", f.expected, f.found)
			if f.holds || !strings.Contains(f.found, "2 missing, 2 doubled, 0 made up") {
				t.Error("the mails that are hidden and doubled, one of each of two accounts, were not found")
			}
			return
		}
	}
	t.Error("nothing is expected of mails")
}
