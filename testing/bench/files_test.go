package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/testing/faketime"
	"github.com/rounds-dev/rounds/testing/redistest"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "filesserve" { // bench files starts this program again
		if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	faketime.Lean()
	os.Exit(m.Run())
}

// A small size of bench files: a replica keeps all files of third parties with faults, and they are read as
// they were. Its memory is measured at night, without the race detector.
func TestFilesAreKept(t *testing.T) {
	redistest.LookPath(t)
	var out bytes.Buffer
	b := &filesBench{report: reporter{out: &out, json: true}, small: 60, large: 1, size: 2 << 20, idle: time.Second, stores: []string{inDirectory}, only: "works", until: time.Hour}
	if err := b.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for line := range strings.Lines(out.String()) {
		var f figure
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		got[f.Name] = f.Value
	}
	for name, want := range map[string]float64{"kept": 61, "lost": 0, "expired_unfetched": 0, "downloads": 61, "ranges": 61 * filesRanges} {
		if got["files_directory_"+name] != want {
			t.Errorf("%s is %v and not %v", name, got["files_directory_"+name], want)
		}
	}
	if got["files_directory_resumed"] == 0 || got["files_directory_asked"] <= 1 {
		t.Errorf("nothing broke off, or no request failed: %v", got)
	}
}

// A store in a directory that is away for some minutes loses no file that the third party still has
// afterwards. At night it is an hour, and one in which the store is full or slow.
func TestFilesOutliveTimeWithoutAStore(t *testing.T) {
	const n = 60
	hour := hourOf(t, "away", n, 6*time.Minute)
	if hour.Wrong > 0 || hour.Kept+hour.Lost != n || hour.Kept < 2*n/3 || hour.Lost == 0 {
		t.Errorf("%+v", hour)
	}
}

// The bytes of a file are the same whichever part is made.
func TestPartsOfAFile(t *testing.T) {
	c := fileContent{7, 200_001}
	var whole bytes.Buffer
	if err := c.writeTo(&whole, 0, c.size); err != nil || int64(whole.Len()) != c.size {
		t.Fatalf("%d bytes, %v", whole.Len(), err)
	}
	for _, part := range [][2]int64{{0, 1}, {1, 17}, {15, 16}, {65_535, 131_073}, {100_000, 200_001}, {5, 5}} {
		var got bytes.Buffer
		if err := c.writeTo(&got, part[0], part[1]); err != nil || !bytes.Equal(got.Bytes(), whole.Bytes()[part[0]:part[1]]) {
			t.Errorf("bytes %d to %d: %d others, %v", part[0], part[1], got.Len(), err)
		}
	}
	if _, err := (&comparing{content: c}).Write(whole.Bytes()); err != nil {
		t.Error(err)
	}
	if _, err := (&comparing{content: c, at: 1}).Write(whole.Bytes()); err == nil {
		t.Error("other bytes seem the same")
	}
}
