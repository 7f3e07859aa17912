package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/files"
	"github.com/rounds-dev/rounds/poller/files/keep"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// filesHourAccounts is how many accounts have files in the hour of fake time.
const filesHourAccounts = 20

// filesHour is what became of files that were found in an hour in which the store did not work.
type filesHour struct {
	Trouble string
	Kept    int
	Lost    int // with a reason, and forgotten by the third party before the store was back
	Wrong   int // all others
	Asked   int // requests for all files
	Example string
}

// hours has children go through hours in fake time.
func (b *filesBench) hours(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	hours, err := startAnswering(ctx, filesHourVariable+"="+strconv.Itoa(b.hourFiles), self, "fileshour")
	if err != nil {
		return err
	}
	var errs []error
	for range filesTroubles() {
		var hour filesHour
		if err := hours.ask("next", &hour); err != nil {
			hours.stop()
			return err
		}
		name := "files_hour_" + hour.Trouble + "_"
		b.report.figure(name+"kept", float64(hour.Kept), fmt.Sprintf("files of %d, in a directory, after an hour of fake time", b.hourFiles))
		b.report.figure(name+"lost", float64(hour.Lost), "files, each with its reason: third parties forgot them within the hour")
		b.report.figure(name+"asked", float64(hour.Asked)/float64(b.hourFiles), "requests a file")
		if hour.Wrong > 0 || hour.Kept+hour.Lost != b.hourFiles {
			errs = append(errs, fmt.Errorf("the store was %s for an hour: of %d files %d were kept, %d lost as they should, and %d are wrong, such as %s",
				hour.Trouble, b.hourFiles, hour.Kept, hour.Lost, hour.Wrong, hour.Example))
		}
	}
	_ = hours.in.Close()
	return errors.Join(append(errs, hours.cmd.Wait())...)
}

// filesHourVariable is the variable with how many files there are.
const filesHourVariable = "BENCH_FILES"

func filesTroubles() []string { return []string{"away", storeFull, storeSlow} }

// filesHourServe goes through an hour for each trouble once it has read a line, and prints what became of the
// files.
func filesHourServe(_ context.Context, _ []string, in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(os.Getenv(filesHourVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", filesHourVariable, err)
	}
	// Fake time needs a test to run in.
	testing.Init()
	faketime.Lean()
	encoder, lines := json.NewEncoder(out), bufio.NewScanner(in)
	run := func(t *testing.T) {
		for _, trouble := range filesTroubles() {
			if !lines.Scan() {
				return
			}
			if err := encoder.Encode(hourOf(t, trouble, n, time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
	}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Hour", F: run}}, nil, nil)
	return nil
}

// hourOf has files found for an hour, or another length, in which the store in a directory does not work.
// It waits until all are kept or lost, for as long again at most.
func hourOf(t *testing.T, trouble string, n int, length time.Duration) (hour filesHour) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files")
	directory, err := files.OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	hour.Trouble = trouble
	faketime.Run(t, 1, func(w *faketime.World) {
		store := &troubledStore{Store: directory, pause: 5 * time.Second}
		third := &forgetful{}
		checkers := poller.Checkers{third.Kind(): third}
		for i := range filesHourAccounts {
			w.Register(circulate.Registration{ID: filesAccount(i), Record: fmt.Appendf(nil, `{"id":%q,"kind":%q,"config":{},"cadence":"every 24h"}`, filesAccount(i), third.Kind()), Due: time.Now().Add(24 * time.Hour)})
		}
		k := keep.New(keep.Config{}, keep.Options{Ring: w.Ring, Store: store, Checkers: checkers, Log: faketime.Log(w)})
		stop := faketime.Go(w, k.Consumer().Run)
		defer stop()
		time.Sleep(time.Minute)
		if trouble == "away" {
			err = os.Rename(dir, dir+".away")
		} else {
			store.be(trouble)
		}
		if err != nil {
			w.Fatal(err)
		}
		found := findDuring(w, n, length)
		if trouble == "away" {
			err = os.Rename(dir+".away", dir)
		} else {
			store.be(storeWell)
		}
		if err != nil {
			w.Fatal(err)
		}
		back := time.Now()
		settledWithin(w, length, n)
		for _, f := range found {
			hour.judge(w, store, f, back)
		}
		hour.Asked = int(third.asked.Load())
	})
	return hour
}

// settledWithin waits for some time, or until so many files are kept or lost.
func settledWithin(w *faketime.World, most time.Duration, n int) {
	w.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Minute) {
		totals, err := w.Ring.Files().Totals(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if totals.Kept.Files+totals.Lost == n {
			return
		}
	}
}

// foundFile is a file of a message, and until when its third party has it.
type foundFile struct {
	account, message string
	until            time.Time
}

// findDuring has files found at an even pace. If it takes an hour, third parties have them for ten minutes, for
// three hours, or for three days.
func findDuring(w *faketime.World, n int, length time.Duration) (found []foundFile) {
	w.Helper()
	ends := []time.Duration{length / 6, 3 * length, 72 * length}
	for i := range n {
		time.Sleep(length / time.Duration(n))
		f := foundFile{filesAccount(i % filesHourAccounts), fmt.Sprint("message-", i), time.Now().Add(ends[i%len(ends)]).Truncate(time.Second)}
		now, err := w.Ring.Now(w.Context(), 0)
		if err != nil {
			w.Fatal(err)
		}
		shard := w.Ring.ShardOf(f.account)
		at := circulate.StreamID{Ms: uint64(now.UnixMilli()), Seq: uint64(i)}
		if err := w.Ring.Archive().LoadMessages(w.Context(), shard, []circulate.Found{{
			Position: at.String(), Account: f.account, Kind: "forgetful",
			Message: circulate.Message{ID: f.message, Type: "file", Data: fmt.Appendf(nil, `{"until":%q}`, f.until.Format(time.RFC3339))},
		}}); err != nil {
			w.Fatal(err)
		}
		found = append(found, f)
	}
	return found
}

// judge judges what became of a file.
func (h *filesHour) judge(w *faketime.World, store files.Store, f foundFile, back time.Time) {
	w.Helper()
	rows, err := w.Ring.Files().Look(w.Context(), false, circulate.NewFileID(f.account, circulate.FileOfMessage, f.message, 0))
	if err != nil {
		w.Fatal(err)
	}
	row := &rows[0]
	switch {
	case row.State == circulate.FileLost && row.ID != "" && row.Reason != "" && f.until.Before(back):
		h.Lost++
	case row.State == circulate.FileKept && row.ID != "" && holds(w, store, row.Object, f.message):
		h.Kept++
	default:
		h.Wrong++
		h.Example = cmp.Or(h.Example, fmt.Sprintf("%s until %v: %+v", f.message, f.until, *row))
	}
}

// holds reports whether an object has the bytes of a message's file.
func holds(w *faketime.World, store files.Store, object, message string) bool {
	w.Helper()
	r, err := store.Open(w.Context(), object)
	if err != nil {
		return false
	}
	got, err := io.ReadAll(r)
	return errors.Join(err, r.Close()) == nil && bytes.Equal(got, forgetfulBytes(message))
}

// forgetful is a third party that has files for as long as their message says.
type forgetful struct {
	sleeper
	asked atomic.Int64
}

// Kind names it.
func (*forgetful) Kind() string { return "forgetful" }

// Forgets is true.
func (*forgetful) Forgets() bool { return true }

// Files returns the one file of a message.
func (*forgetful) Files(m *poller.Message) []poller.File {
	var data struct {
		Until time.Time `json:"until"`
	}
	_ = json.Unmarshal(m.Data, &data) // a message without it has a file of unknown end
	return []poller.File{{Name: m.ID, Until: data.Until}}
}

// FetchFile gives a file until its end.
func (f *forgetful) FetchFile(_ context.Context, r poller.FileRequest) (*poller.FileBody, error) {
	f.asked.Add(1)
	if !time.Now().Before(f.Files(r.Message)[0].Until) {
		return nil, poller.NoFile("file_gone", "the third party has forgotten the file")
	}
	return &poller.FileBody{ReadCloser: io.NopCloser(bytes.NewReader(forgetfulBytes(r.Message.ID)))}, nil
}

func forgetfulBytes(message string) []byte { return bytes.Repeat([]byte(message), 1000) }
