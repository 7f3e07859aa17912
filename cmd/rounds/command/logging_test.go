package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

func TestTextLog(t *testing.T) {
	var out bytes.Buffer
	log, _ := newLogger(&out, settings.Log{Format: "auto", Level: slog.LevelInfo}, true)
	log.Debug("not this")
	log.With("role", "poller").WithGroup("redis").With("host", "a b").Warn("gone\naway",
		"err", errors.New(`no "route"`), "after", 1500*time.Millisecond, slog.Group("pool", "size", 4), "empty", "", slog.Group("", "inline", true))
	want := `^\d\d:\d\d:\d\d\.\d{3} WARN  gone\\naway role=poller redis\.host="a b" redis\.err="no \\"route\\"" ` +
		`redis\.after=1\.5s redis\.pool\.size=4 redis\.empty="" redis\.inline=true\n$`
	if !regexp.MustCompile(want).MatchString(out.String()) {
		t.Errorf("got %q", out.String())
	}
}

func TestLogFormat(t *testing.T) {
	for _, c := range []struct {
		format   string
		terminal bool
		json     bool
	}{
		{"auto", true, false}, {"auto", false, true},
		{"text", true, false}, {"text", false, false},
		{"json", true, true}, {"json", false, true},
	} {
		var out bytes.Buffer
		log, _ := newLogger(&out, settings.Log{Format: c.format, Level: slog.LevelDebug}, c.terminal)
		log.Debug("hello", "n", 1)
		if json.Valid(out.Bytes()) != c.json {
			t.Errorf("%s, terminal %t: got %s", c.format, c.terminal, out.String())
		}
	}
}
