package pages

import (
	"net/http"
	"slices"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// demoPollers are the pollers of the demo.
type demoPollers struct{ api.DemoPollers }

// Kills reports whether a replica is a poller of the demo, which visitors may kill.
func (d *demoPollers) Kills(replica string) bool {
	return slices.ContainsFunc(d.Pollers, func(p api.DemoPoller) bool { return p.State == "running" && p.Replica == replica })
}

// Next returns when the first poller starts that replaces a killed one; the zero time: all places
// are taken.
func (d *demoPollers) Next() (next time.Time) {
	for _, p := range d.Pollers {
		if p.State == "killed" && p.Next != nil && (next.IsZero() || p.Next.Before(next)) {
			next = *p.Next
		}
	}
	return next
}

// demo returns the pollers of the demo, or nil if this is not a demo.
func (v *visit) demo() *demoPollers {
	if !v.options.Demo {
		return nil
	}
	var d demoPollers
	v.ifMay("POST /v1/demo:kill", "/v1/demo", &d)
	return &d
}

// killPoller kills a poller of the demo.
func killPoller(v *visit) (string, error) {
	asked := map[string]string{"replica": v.r.PostForm.Get("replica")}
	return "/?said=demo.killed", v.do(http.MethodPost, "/v1/demo:kill", asked, nil)
}
