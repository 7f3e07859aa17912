package command

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

const (
	// gaugePause is the least time between two updates. A terminal must not slow the work down.
	gaugePause = 100 * time.Millisecond
	// gaugeWidth is the width of a terminal that does not report one.
	gaugeWidth = 80
	// gaugeSure is how long work goes on before the remaining time is estimated.
	gaugeSure = 2 * time.Second
)

// gauge shows on a line of a terminal how far a backup or a restore has got. It shows nothing if
// standard error is not a terminal.
type gauge struct {
	out   io.Writer // nil: standard error is not a terminal
	width func() int
	now   func() time.Time

	doing string
	began time.Time
	shown time.Time
}

func newGauge(env environment) *gauge {
	g := &gauge{now: time.Now, width: func() int { return gaugeWidth }}
	if !env.terminal(env.stderr) {
		return g
	}
	raw := terminal.Raw(env.stderr)
	g.out, _ = raw.(io.Writer)
	if file, ok := raw.(*os.File); ok {
		g.width = func() int {
			if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
				return columns
			}
			return gaugeWidth
		}
	}
	return g
}

// begin begins a piece of work, whose name the line shows.
func (g *gauge) begin(doing string) {
	g.doing, g.began, g.shown = doing, g.now(), time.Time{}
}

// show shows how much of about how much is done, as far as that is known, and how many bytes that
// was, unless 0.
func (g *gauge) show(done, about backup.Counts, size int64) {
	now := g.now()
	if g.out == nil || now.Sub(g.shown) < gaugePause {
		return
	}
	g.shown = now
	texts := []string{counted(done.Accounts, about.Accounts, "accounts"), counted(done.Messages, about.Messages, "messages")}
	if size > 0 {
		texts = append(texts, megabytes(size))
	}
	if left := g.left(now, done, about); left > 0 {
		texts = append(texts, "about "+left.String()+" left")
	}
	line := g.doing + ": " + strings.Join(texts, ", ")
	// The last column stays free: some terminals begin a new line after it.
	if most := g.width() - 1; len(line) > most {
		line = line[:max(0, most)]
	}
	fmt.Fprintf(g.out, "\r\x1b[K%s", line)
}

// left estimates how long the rest takes, in whole seconds; 0: unknown.
func (g *gauge) left(now time.Time, done, about backup.Counts) time.Duration {
	all, so := about.Accounts+about.Messages, done.Accounts+done.Messages
	took := now.Sub(g.began)
	if took < gaugeSure || so <= 0 || so >= all {
		return 0
	}
	left := time.Duration(float64(took) * float64(all-so) / float64(so))
	return max(time.Second, left.Round(time.Second))
}

// end removes the line.
func (g *gauge) end() {
	if g.out != nil {
		fmt.Fprint(g.out, "\r\x1b[K")
	}
}

func counted(n, of int, what string) string {
	if of <= 0 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d of %d %s", n, max(n, of), what)
}

// megabytes returns a size for people.
func megabytes(size int64) string {
	switch {
	case size < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(size)/1e3)
	case size < 10_000_000:
		return fmt.Sprintf("%.1f MB", float64(size)/1e6)
	}
	return fmt.Sprintf("%.0f MB", float64(size)/1e6)
}

// metered is a writer to a meter that also shows the progress.
type metered struct {
	backup.Meter
	gauge *gauge
}

// Write counts and shows.
func (m *metered) Write(text []byte) (int, error) {
	n, err := m.Meter.Write(text)
	m.gauge.show(m.Counts, m.About, m.Bytes)
	return n, err
}

// contents describes a backup's content for people.
func contents(c backup.Counts) string {
	texts := []string{
		some(c.Accounts, "account"), some(c.Messages, "message"), some(c.Dead, "dead letter"),
	}
	for _, more := range []struct {
		n    int
		what string
	}{{c.Keys, "key"}, {c.Webhooks, "disabled webhook"}, {c.Secrets, "sealed secret"}, {c.Credentials, "sealed credential"}} {
		if more.n > 0 {
			texts = append(texts, some(more.n, more.what))
		}
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}

func some(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// took returns for people how long something took.
func took(d time.Duration) string {
	if d < time.Second {
		return "less than a second"
	}
	return d.Round(time.Second).String()
}
