// Package doctor looks at a whole installation, and says of each part whether it is well and what
// to do: settings, Redis, the namespace, replicas, the law, groups, secrets, the way out, the API.
// It changes nothing. Each look is bounded in time, and no line has a secret.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// Status is how a part is.
type Status string

// The statuses.
const (
	ok      Status = "ok"
	warning Status = "warning" // the part works, but may lose something or fail later
	fault   Status = "fault"   // something does not work
	skipped Status = "skipped" // the part could not be looked at, for a reason that is listed elsewhere
)

// Check is one thing that was looked at.
type Check struct {
	Part   string `json:"part"`
	Status Status `json:"status"`
	Text   string `json:"text"`
	Do     string `json:"do,omitempty"` // for a warning or a fault
}

// Report is the result of all checks.
type Report struct {
	Checks   []Check  `json:"checks"`
	Faults   int      `json:"faults"`
	Warnings int      `json:"warnings"`
	Todo     []string `json:"todo"` // faults first
}

// Options are what the doctor works with.
type Options struct {
	// Settings are the service's. Faulty has their faults; Settings then have what could be read.
	Settings settings.Settings
	Faulty   error
	// Unknown are variables that look like settings but are not.
	Unknown []string
	Service service.Options
	Calls   *client.Client
	// Audit makes the doctor do a whole audit, however long that takes.
	Audit bool
	// Within bounds each look; 0: ten seconds.
	Within time.Duration
}

// doctor is one examination.
type doctor struct {
	Options
	report Report

	seen    circulate.Outage // what the API has seen of an outage of Redis, if it has just ended
	up      time.Duration    // for how long the Redis that started last has been up
	upKnown bool
}

// Examine looks at everything.
func Examine(ctx context.Context, o Options) Report {
	if o.Within == 0 {
		o.Within = 10 * time.Second
	}
	d := &doctor{Options: o, report: Report{Checks: []Check{}, Todo: []string{}}}
	d.settings()
	d.within(ctx, d.api)
	var known knowledge
	if o.Settings.Redis.URL == "" {
		d.dataDir()
		known = d.throughAPI(ctx)
	} else {
		known = d.throughRedis(ctx)
	}
	d.within(ctx, func(ctx context.Context) { d.secrets(ctx, known); d.webhookSecrets(ctx, known) })
	d.within(ctx, func(ctx context.Context) { d.endpoints(ctx, known) })
	d.wayOut(ctx, known)
	if known.close != nil {
		known.close()
	}
	d.sum()
	return d.report
}

func (d *doctor) within(ctx context.Context, look func(context.Context)) {
	ctx, cancel := context.WithTimeout(ctx, d.Within)
	defer cancel()
	look(ctx)
}

func (d *doctor) add(c Check)            { d.report.Checks = append(d.report.Checks, c) }
func (d *doctor) ok(part, text string)   { d.add(Check{part, ok, text, ""}) }
func (d *doctor) skip(part, text string) { d.add(Check{part, skipped, text, ""}) }

// warn and fault add what is wrong. do says what helps, and is empty if the text does.
func (d *doctor) warn(part, text, do string)  { d.add(Check{part, warning, text, do}) }
func (d *doctor) fault(part, text, do string) { d.add(Check{part, fault, text, do}) }

// sum counts the results, and lists what to do.
func (d *doctor) sum() {
	for _, status := range []Status{fault, warning} {
		for i := range d.report.Checks {
			c := &d.report.Checks[i]
			if c.Status != status {
				continue
			}
			if c.Do == "" {
				c.Do = c.Text
			}
			d.report.Todo = append(d.report.Todo, c.Do)
			if status == fault {
				d.report.Faults++
			} else {
				d.report.Warnings++
			}
		}
	}
}

// settings reports the faults of the settings, one by one.
func (d *doctor) settings() {
	if d.Faulty != nil {
		for line := range strings.Lines(d.Faulty.Error()) {
			d.fault("settings", strings.TrimSpace(line), "")
		}
	}
	for _, name := range d.Unknown {
		text := name + " is set, and no setting has this name"
		if likely := settings.Likely(name); likely != "" {
			text += "; is it " + likely + "?"
		}
		d.warn("settings", text, "remove or rename "+name)
	}
	if d.Faulty == nil && len(d.Unknown) == 0 {
		d.ok("settings", "all are valid")
	}
}

// knowledge is what later looks need.
type knowledge struct {
	// list returns some accounts; nil: they cannot be read.
	list   func(ctx context.Context) ([]accounts.View, error)
	source secretSource
	ring   *circulate.Ring // nil: it cannot be asked, or Redis is inside another process
	close  func()
}

// Write prints a report for people: a line for each check, and then what to do. plain
// makes others' texts printable.
func (r *Report) Write(w io.Writer, plain func(string) string) error {
	var b strings.Builder
	for _, c := range r.Checks {
		fmt.Fprintf(&b, "%-8s %-13s %s\n", c.Status, c.Part, plain(c.Text))
	}
	b.WriteByte('\n')
	if len(r.Todo) == 0 {
		b.WriteString("Nothing to do.\n")
	} else {
		b.WriteString("What to do:\n")
	}
	for i, do := range r.Todo {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, plain(do))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
