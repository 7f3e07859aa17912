package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// newLogger makes the logger of the process. It writes text to a terminal and JSON to
// everything else, unless the settings say which. The level can be changed later.
func newLogger(w io.Writer, s settings.Log, terminal bool) (*slog.Logger, *slog.LevelVar) {
	level := &slog.LevelVar{}
	level.Set(s.Level)
	if s.Format == "json" || s.Format != "text" && !terminal {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: readable})), level
	}
	return slog.New(&textHandler{out: &lockedWriter{w: w}, level: level}), level
}

// readable writes durations for people, and not as a number of nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// lockedWriter lets several handlers share one stream.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// textHandler writes a line for people: time of day, level, message, key=value.
type textHandler struct {
	out    *lockedWriter
	level  slog.Leveler
	prefix string // of keys: the open groups
	attrs  string // of the logger, in their written form
}

// Enabled implements slog.Handler.
func (h *textHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.level.Level()
}

// Handle implements slog.Handler.
func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	if !r.Time.IsZero() {
		b.WriteString(r.Time.Format("15:04:05.000 "))
	}
	fmt.Fprintf(&b, "%-5s %s", r.Level, oneLine(r.Message))
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&b, h.prefix, a)
		return true
	})
	b.WriteByte('\n')
	_, err := io.WriteString(h.out, b.String())
	return err
}

// WithAttrs implements slog.Handler.
func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	with := *h
	with.attrs = b.String()
	return &with
}

// WithGroup implements slog.Handler.
func (h *textHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.prefix += name + "."
	return &with
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			writeAttr(b, prefix, member)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	b.WriteString(" " + prefix + a.Key + "=" + quoted(textOf(value)))
}

func textOf(value slog.Value) string {
	switch value.Kind() {
	case slog.KindTime:
		return value.Time().Format(time.RFC3339Nano)
	case slog.KindDuration:
		return value.Duration().Round(time.Microsecond).String()
	}
	return value.String()
}

// quoted quotes a value that would otherwise be more than one word.
func quoted(text string) string {
	odd := func(c rune) bool { return !unicode.IsPrint(c) || slices.Contains([]rune(" =\""), c) }
	if text == "" || strings.ContainsFunc(text, odd) {
		return strconv.Quote(text)
	}
	return text
}

// oneLine prevents a text from starting new lines or moving the cursor.
func oneLine(text string) string { return terminal.OneLine(text) }
