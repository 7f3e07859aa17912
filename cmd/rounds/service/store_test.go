package service

import (
	"slices"
	"testing"

	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// Stats say where everything is stored, so that a wrong variable shows there.
func TestStoreSaysWhereEverythingIsKept(t *testing.T) {
	embedded := &store{server: redistest.Embedded(t)}
	if d := embedded.data(t.Context()); !d.Forgets || len(d.Concerns) > 0 {
		t.Errorf("embedded: %+v", d)
	}
	process := redistest.Start(t)
	kept := &store{server: redistest.Connect(t, process)}
	about := func(c api.RedisConcern) bool { return c.Concern == string(connect.ConcernAppendOnly) && c.Text != "" }
	d := kept.data(t.Context())
	if d.Forgets || d.Store == "" || !slices.ContainsFunc(d.Concerns, about) {
		t.Errorf("without an append-only file: %+v", d)
	}
	process.Kill()
	kept.asked = kept.asked.Add(-dataKept)
	if d := kept.data(t.Context()); !slices.ContainsFunc(d.Concerns, about) {
		t.Errorf("while Redis is away nothing has ended: %+v", d)
	}
}
