package redistest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/circulate/datadir"
)

// kept starts the embedded server with a data directory. When the test has ended, a server is
// filled from a copy of the directory, as after a kill: it must have the same, key by key. All
// of it comes from the log, since nobody takes an image.
func kept(tb testing.TB) *connect.Embedded {
	tb.Helper()
	e := Embedded(tb)
	path := tb.TempDir()
	dir, err := datadir.Open(context.Background(), e, datadir.Options{Path: path, What: "a test"})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := compare(e, path); err != nil {
			tb.Errorf("after a kill: %v", err)
		}
		if err := dir.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// compare fills a server from a copy of a directory, and returns an error that names the first
// key that is not as in the server that uses the directory, which must have nothing to do.
func compare(live *connect.Embedded, path string) (err error) {
	copied, err := os.MkdirTemp("", "rounds-kept-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(copied)) }()
	if err := copyData(path, copied); err != nil {
		return err
	}
	filled := connect.NewEmbedded()
	defer func() { err = errors.Join(err, filled.Close()) }()
	dir, err := datadir.Open(context.Background(), filled, datadir.Options{Path: copied, What: "a test"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if damaged := dir.State().Damaged; len(damaged) > 0 {
		return fmt.Errorf("damaged: %+v", damaged)
	}
	return Same(live, filled)
}

// copyData copies the files of a data directory into another one, as they are at this moment.
func copyData(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "data.*"))
	if err != nil {
		return err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Same returns an error that names the first key that two servers do not have alike.
func Same(one, other *connect.Embedded) error {
	now := time.Now()
	was, err := everything(one, now)
	if err != nil {
		return err
	}
	is, err := everything(other, now)
	if err != nil {
		return err
	}
	for name, want := range was {
		if got, ok := is[name]; !ok || !alike(got, want) {
			return fmt.Errorf("key %q has\n%.2000v, and not\n%.2000v", name, got, want)
		}
	}
	for name := range is {
		if _, ok := was[name]; !ok {
			return fmt.Errorf("key %q was removed, and is there: %v", name, is[name])
		}
	}
	return nil
}

// everything returns what a server has, by key, as an image has it.
func everything(server *connect.Embedded, now time.Time) (map[string]any, error) {
	defer server.HoldClock(now)()
	taken, err := datadir.NewTaker(server).Take()
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if _, err := taken.Write(&packed, ""); err != nil {
		return nil, err
	}
	lines, err := zstd.NewReader(&packed)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	all := make(map[string]any)
	var values []any
	name := ""
	in := bufio.NewReader(lines)
	for {
		text, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var line struct {
			Key  map[string]any
			More []any
		}
		if err := json.Unmarshal(text, &line); err != nil {
			return nil, err
		}
		switch {
		case line.Key != nil:
			name, _ = line.Key["name"].(string)
			values = []any{line.Key}
		case line.More != nil:
			values = append(values, line.More...)
		default:
			continue
		}
		all[name] = values
	}
	return all, nil
}

// alike reports whether two values are the same. Moments may differ by two milliseconds: an
// image has them in whole ones.
func alike(one, other any) bool {
	switch a := one.(type) {
	case map[string]any:
		b, ok := other.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name := range a {
			one, moment := a[name].(float64)
			other, also := b[name].(float64)
			if close := moment && also && math.Abs(one-other) <= 2 && (name == "expires" || name == "delivered"); !close && !alike(a[name], b[name]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := other.([]any)
		return ok && slices.EqualFunc(a, b, alike)
	}
	return one == other
}
