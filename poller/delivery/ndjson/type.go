package ndjson

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

// Type is the type file of endpoints.
type Type struct {
	Namespace string // the ring's
	Log       *slog.Logger
}

var _ sink.Type = Type{}

// Type returns the name of the type.
func (Type) Type() string { return "file" }

// Read reads the fields that only files have:
//
//	{"name": "archive", "type": "file", "directory": "/var/lib/rounds/archive", "max_bytes": 134217728, "max_age": "1h"}
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	s := ReadSettings(r, maxMaxBytes)
	return config{t, e, s}
}

// ReadSettings reads the fields of an endpoint that writes files, and sets their names. most is the
// largest max_bytes.
func ReadSettings(r *strict.Reader, most int64) Settings {
	s := Settings{Directory: r.Text("directory")}
	if s.Directory != "" && !validDirectory(s.Directory) {
		r.Fault("directory", "must be an absolute path without . or .. in it")
	}
	var bytes *int64
	if r.Optional("max_bytes", "a whole number of bytes", &bytes); bytes != nil {
		if s.MaxBytes = *bytes; s.MaxBytes < minMaxBytes || s.MaxBytes > most {
			r.Fault("max_bytes", fmt.Sprintf("must be 65536 (64 KiB) to %d (%d GiB)", most, most>>30))
		}
	}
	var age *string
	if r.Optional("max_age", `a duration, as "1h"`, &age); age != nil {
		var err error
		if s.MaxAge, err = time.ParseDuration(*age); err != nil || s.MaxAge < minMaxAge || s.MaxAge > maxMaxAge {
			r.Fault("max_age", `must be a duration, as "1h", from 1s to 744h`)
		}
	}
	r.Known(sink.Names("directory", "max_bytes", "max_age")...)
	return s
}

type config struct {
	of       Type
	endpoint sink.Endpoint
	settings Settings
}

// Open returns the endpoint's sink.
func (c config) Open() (delivery.Sink, error) {
	return New(c.endpoint.Name, c.settings, sink.Encoding{Namespace: c.of.Namespace, Format: c.endpoint.Format}, c.of.Log), nil
}
