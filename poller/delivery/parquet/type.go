package parquet

import (
	"log/slog"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/poller/delivery"
	"github.com/rounds-dev/rounds/poller/delivery/ndjson"
	"github.com/rounds-dev/rounds/poller/delivery/sink"
)

// maxMaxBytes bounds the lines of a file, because a process that ends waits until they are converted.
const maxMaxBytes = 1 << 30

// Type is the type parquet of endpoints.
type Type struct {
	Namespace string // the ring's
	Log       *slog.Logger
}

var _ sink.Type = Type{}

// Type returns the name of the type.
func (Type) Type() string { return "parquet" }

// Read reads the fields that files have:
//
//	{"name": "lake", "type": "parquet", "directory": "/var/lib/rounds/lake", "max_bytes": 134217728, "max_age": "1h"}
//
// max_bytes counts the bytes of lines, which are some five times those of the file.
func (t Type) Read(e sink.Endpoint, r *strict.Reader) sink.Config {
	if e.Format != sink.Plain {
		r.Fault("format", "must be left out: rows have columns")
	}
	return config{t, e.Name, ndjson.ReadSettings(r, maxMaxBytes)}
}

type config struct {
	of       Type
	name     string
	settings ndjson.Settings
}

// Open returns the endpoint's sink.
func (c config) Open() (delivery.Sink, error) {
	return ndjson.NewOf(form{c.of.Namespace}, c.name, c.settings, c.of.Log), nil
}
