package replicas

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const journalKept = 400

// Journal keeps the last lines of what happened in a world.
type Journal struct {
	mu    sync.Mutex
	lines []string
	next  int
	watch func(line string)
}

// Write adds a line, with the fake time.
func (j *Journal) Write(format string, args ...any) {
	line := time.Now().UTC().Format("01-02 15:04:05.000 ") + fmt.Sprintf(format, args...)
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) < journalKept {
		j.lines = append(j.lines, line)
		return
	}
	j.lines[j.next] = line
	j.next = (j.next + 1) % journalKept
}

// Watch calls fn for every line that a logger of the journal writes.
func (j *Journal) Watch(fn func(line string)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.watch = fn
}

// String returns the lines, the oldest first.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(append(append([]string(nil), j.lines[j.next:]...), j.lines[:j.next]...), "\n")
}

// Logger returns a logger that writes to the journal, without details.
func (j *Journal) Logger(who string) *slog.Logger { return slog.New(&handler{journal: j, who: who}) }

type handler struct {
	journal *Journal
	who     string
}

func (h *handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s", h.who, r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	h.journal.Write("%s", b.String())
	h.journal.mu.Lock()
	watch := h.journal.watch
	h.journal.mu.Unlock()
	if watch != nil {
		watch(b.String())
	}
	return nil
}

func (h *handler) WithAttrs([]slog.Attr) slog.Handler { return h } // the logger's name is in each line already
func (h *handler) WithGroup(string) slog.Handler      { return h }
