package processes

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Output is what a program writes. Many readers may use it meanwhile. The zero Output is
// empty.
type Output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{} // closed by the next Write; nil: nobody waits
}

// Write appends what the program writes.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed != nil {
		close(o.changed)
		o.changed = nil
	}
	return o.text.Write(p)
}

// String returns everything that was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (o *Output) count(text string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Count(o.text.Bytes(), []byte(text))
}

// snapshot returns everything that was written so far, and a channel that the next Write
// closes.
func (o *Output) snapshot() (string, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed == nil {
		o.changed = make(chan struct{})
	}
	return o.text.String(), o.changed
}

// Await waits until a text was written, for at most 30 s.
func (o *Output) Await(t testing.TB, text string) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		written, changed := o.snapshot()
		if strings.Contains(written, text) {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			t.Fatalf("%q was not written within 30 s:\n%s", text, written)
		}
	}
}
