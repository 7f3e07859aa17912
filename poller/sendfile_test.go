package poller_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/testing/faketime"
)

// drawer has the files of sends.
type drawer struct {
	mu    sync.Mutex
	bytes map[string]string // by send
	err   error
	slow  time.Duration // how long it looks for a file
}

func (d *drawer) FileOf(ctx context.Context, _, send string) (*poller.SendFile, error) {
	d.mu.Lock()
	slow := d.slow
	d.mu.Unlock()
	if slow > 0 {
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	bytes, ok := d.bytes[send]
	if !ok {
		return nil, poller.ErrNoSendFile
	}
	return &poller.SendFile{File: poller.File{Name: "x", Size: int64(len(bytes))}, Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(bytes)), nil
	}}, nil
}

// delay has the drawer look for each file that long.
func (d *drawer) delay(slow time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.slow = slow
}

func (d *drawer) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// A send that is a file gets its bytes, waits while the store is away, and is rejected if they are gone.
// A replica without a store leaves it to another one. Uploading may take longer than a send.
func TestSendsWithFiles(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k, d := newTalker(), &drawer{bytes: make(map[string]string)}
		k.files = []string{"image"}
		var got []string
		k.send = func(ctx context.Context, r poller.SendRequest) (poller.Sent, error) {
			select { // an upload
			case <-time.After(3 * time.Minute):
			case <-ctx.Done():
				return poller.Sent{}, poller.Beforehand(ctx.Err())
			}
			from, err := r.File.Open(ctx)
			if err != nil {
				return poller.Sent{}, err
			}
			bytes, err := io.ReadAll(from)
			k.mu.Lock()
			got = append(got, string(bytes))
			k.mu.Unlock()
			return k.take(r), err
		}
		w.chats("", "a")
		image := func(s *circulate.Send) { s.Type = "image" }
		id := w.queue("a", "anna", image)
		d.bytes[id] = "a picture"

		stop := w.startChecking(poller.Config{}, k, testLog(t))
		time.Sleep(10 * time.Minute)
		if s := w.sent(id); s.State != circulate.SendQueued || s.Code != "file_store" || s.Attempts != 0 {
			t.Errorf("without a store: %+v", s)
		}
		stop()

		d.fail(errors.New("away"))
		pool := w.pool(poller.Config{}, poller.Options{Log: testLog(t), Files: d}, k)
		stop = faketime.Go(w, pool.Run)
		time.Sleep(time.Minute)
		w.is(id, circulate.SendQueued, "file_store")
		d.fail(nil)
		time.Sleep(4 * time.Minute)
		w.is(id, circulate.SendAccepted, "")
		if len(got) != 1 || got[0] != "a picture" {
			t.Errorf("the third party has %q", got)
		}
		gone := w.queue("a", "anna", image)
		time.Sleep(time.Minute)
		w.is(gone, circulate.SendRejected, "file_gone")

		slow := w.queue("a", "ben", image)
		d.mu.Lock()
		d.bytes[slow] = "another"
		d.mu.Unlock()
		time.Sleep(time.Minute)
		stop() // the upload is cut: nothing was sent
		if s := w.sent(slow); s.State != circulate.SendQueued && s.State != circulate.SendRejected || s.Attempts > 1 {
			t.Errorf("cut in the middle of its upload: %+v", s)
		}
	})
}

// While the look for its file takes too long, a send waits: its call does not begin long after its
// attempt, and its place is free for another.
func TestASendWaitsWhileItsFileIsLookedForTooLong(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k, d := newTalker(), &drawer{bytes: make(map[string]string)}
		k.files = []string{"image"}
		w.chats("", "a")
		id := w.queue("a", "anna", func(s *circulate.Send) { s.Type = "image" })
		d.bytes[id] = "a picture"
		d.delay(time.Hour)
		pool := w.pool(poller.Config{Sends: 1}, poller.Options{Log: testLog(t), Metrics: poller.NewMetrics(w.metrics), Files: d}, k)
		stop := faketime.Go(w, pool.Run)
		defer stop()
		time.Sleep(2 * time.Minute)
		// An attempt may wait for 9 seconds, and the next one begins 2 seconds later at most.
		if n := w.counted("rounds_sends_attempted_total", "put_off"); n < 10 || len(k.has()) > 0 {
			t.Errorf("put off %v times; the third party has %q", n, k.has())
		}
		d.delay(0)
		time.Sleep(time.Minute)
		w.is(id, circulate.SendAccepted, "")
		if n := w.sent(id).Attempts; n != 1 || len(k.has()) != 1 {
			t.Errorf("after %d attempts the third party has %q", n, k.has())
		}
	})
}

// A file may take minutes. Sends without files go out at once meanwhile, and no more files are under way than
// there are places for them.
func TestSendsWithFilesHoldNoPlacesOfOthers(t *testing.T) {
	inFakeTime(t, func(w *world) {
		k, d := newTalker(), &drawer{bytes: make(map[string]string)}
		k.files = []string{"image"}
		var uploads, most atomic.Int64
		k.send = func(_ context.Context, r poller.SendRequest) (poller.Sent, error) {
			if r.File != nil {
				n := uploads.Add(1)
				most.Store(max(most.Load(), n))
				time.Sleep(3 * time.Minute)
				uploads.Add(-1)
			}
			return k.take(r), nil
		}
		w.chats("", "a")
		var images []string
		for n := range 5 {
			id := w.queue("a", fmt.Sprint("image ", n), func(s *circulate.Send) { s.Type, s.Data = "image", json.RawMessage(`{"file":"f"}`) })
			images, d.bytes[id] = append(images, id), "a picture"
		}
		pool := w.pool(poller.Config{Sends: 16}, poller.Options{Log: testLog(t), Metrics: poller.NewMetrics(w.metrics), Files: d}, k)
		stop := faketime.Go(w, pool.Run)
		defer stop()
		time.Sleep(time.Minute)
		for n := range 20 {
			text := w.queue("a", fmt.Sprint("text ", n), nil)
			time.Sleep(time.Second)
			w.is(text, circulate.SendAccepted, "")
		}
		time.Sleep(10 * time.Minute)
		for _, id := range images {
			w.is(id, circulate.SendAccepted, "")
		}
		if n := most.Load(); n != 2 {
			t.Errorf("%d files at once, of 16 places", n)
		}
	})
}

// What became of a call before the send's own says nothing about the send, but a refusal for good stays
// one.
func TestBeforehand(t *testing.T) {
	for _, tt := range []struct {
		err           error
		final, unsent bool
		after         time.Duration
	}{
		{io.ErrUnexpectedEOF, false, true, 0},
		{&poller.CheckError{Kind: poller.RateLimited, Code: "x", RetryAfter: time.Minute}, false, true, time.Minute},
		{&poller.SendError{After: time.Second, Code: "again"}, false, true, time.Second},
		{poller.Refused("no", "never"), true, false, 0},
	} {
		var e *poller.SendError
		if !errors.As(poller.Beforehand(tt.err), &e) || e == nil || e.Final != tt.final || e.Unsent != tt.unsent || e.After != tt.after {
			t.Errorf("%v: %+v", tt.err, e)
		}
	}
}
