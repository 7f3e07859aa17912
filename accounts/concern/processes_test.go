package concern

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// A process is replaced by one that began after it was last heard of, on its host with its roles.
// Each replaces one, and a replacement that dies is the only concern. Minutes are before now.
func TestWhoReplacesWhom(t *testing.T) {
	t.Parallel()
	type one struct {
		name         string
		began, heard float64
		roles, host  string
	}
	for name, test := range map[string]struct {
		there []one
		sole  bool
		want  string // the subject and the others, and since how many minutes
		says  string
	}{
		"one that began before its death": {there: []one{{"p1", 60, 5, "poller", ""}, {"p2", 50, 0, "poller", ""}}, want: "p1 since 5", says: "process p1 with the role poller went silent without leaving"},
		"one that began after":            {there: []one{{"p1", 60, 5, "poller", ""}, {"p2", 4, 0, "poller", ""}}},
		"in the same second":              {there: []one{{"p1", 60, 5, "poller", ""}, {"p2", 5 + 0.9/60, 0, "poller", ""}}},
		"with other roles":                {there: []one{{"p1", 60, 5, "poller", ""}, {"p2", 4, 0, "poller,api", ""}}, want: "p1 since 5"},
		"on another host":                 {there: []one{{"p1", 60, 5, "poller", "a"}, {"p2", 4, 0, "poller", "b"}}, want: "p1 since 5"},
		"one for two": {there: []one{{"p1", 60, 7, "monitor", ""}, {"p2", 60, 5, "monitor", ""}, {"p3", 4, 0, "monitor", ""}},
			want: "p2 since 5", says: "process p2 with the role monitor"},
		"two for two":  {there: []one{{"p1", 60, 7, "monitor", ""}, {"p2", 60, 5, "monitor", ""}, {"p3", 4, 0, "monitor", ""}, {"p4", 3, 0, "monitor", ""}}},
		"each in turn": {there: []one{{"p1", 60, 7, "monitor", ""}, {"p2", 60, 5, "monitor", ""}, {"p3", 4, 0, "monitor", ""}, {"p4", 6, 0, "monitor", ""}}},
		"a replacement that dies": {there: []one{{"p1", 60, 7, "monitor", ""}, {"p2", 6, 2, "monitor", ""}},
			want: "p2 since 2"},
		"a replacement that dies and is replaced": {there: []one{{"p1", 60, 7, "monitor", ""}, {"p2", 6, 2, "monitor", ""}, {"p3", 1, 0, "monitor", ""}}},
		"several": {there: []one{{"p1", 60, 4, "poller", ""}, {"p2", 60, 3, "monitor,api", ""}, {"p3", 60, 2, "poller", ""}},
			want: "p1 p2 p3 since 4", says: "3 processes went silent without leaving (2 × poller; 1 × monitor,api): p1, p2, p3"},
		"a data directory's next":   {there: []one{{"p1", 60, 5, "poller,monitor,api", "a"}, {"p2", 4, 0, "monitor,api", ""}}, sole: true},
		"a data directory's former": {there: []one{{"p1", 60, 5, "poller", ""}, {"p2", 60, 0, "poller,api", ""}}, sole: true, want: "p1 since 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := healthy()
			f.sole = test.sole
			before := func(minutes float64) time.Time {
				return now.Add(-time.Duration(minutes * float64(time.Minute))).Truncate(time.Second)
			}
			for _, p := range test.there {
				f.stats.Processes = append(f.stats.Processes, accounts.Process{
					Name: p.name, Roles: strings.Split(p.roles, ","), Beat: before(p.heard), Report: accounts.ProcessReport{Version: "v1", Host: p.host, Since: before(p.began)},
				})
			}
			got, said := "", ""
			for _, c := range f.judge().Concerns {
				if c.Code != ProcessSilent {
					continue
				}
				names := c.Names
				if len(names) == 0 {
					names = []string{c.Subject}
				}
				got = fmt.Sprint(strings.Join(names, " "), " since ", now.Sub(c.Since).Minutes())
				said = c.Text
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if !strings.HasPrefix(said, test.says) {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// That no monitor lives began when the last one went silent, and not when it last told something.
func TestNoMonitorSinceItsDeath(t *testing.T) {
	t.Parallel()
	f := healthy()
	f.stats.Processes[1].Beat = now.Add(-15 * time.Second)
	for _, told := range []time.Duration{20 * time.Second, 12 * time.Second} {
		f.told = now.Add(-told)
		if c := f.judge().Concerns[0]; c.Code != NoMonitor || now.Sub(c.Since) != min(told, 15*time.Second) {
			t.Errorf("told %v ago: %+v", told, c)
		}
	}
}

// Messages wait for want of delivery since the oldest came, but not since before the last process
// that delivered went silent, nor before there was the endpoint's group.
func TestNoDeliverySinceNobodyDelivers(t *testing.T) {
	t.Parallel()
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	for name, test := range map[string]struct {
		group Group
		heard int // when a process that delivered was last heard of, minutes ago; 0: there was none
		want  int
	}{
		"since the oldest came":     {Group{Arrived: ago(5)}, 0, 5},
		"since the last one's end":  {Group{Arrived: ago(60)}, 7, 7},
		"since there was the group": {Group{Arrived: ago(60), Seen: ago(3)}, 7, 3},
	} {
		f := healthy()
		f.reports = nil
		g := test.group
		g.Name, g.Messages, g.Oldest = "webhook.a", 1, 60
		f.watched.Groups.All = []Group{g}
		if test.heard > 0 {
			f.stats.Processes = append(f.stats.Processes, accounts.Process{Name: "gone", Roles: []string{"delivery"}, Beat: ago(test.heard), Report: accounts.ProcessReport{Since: ago(90), Version: "v1"}})
		}
		c := f.judge().Concerns[0]
		if c.Code != NoDelivery || !c.Since.Equal(ago(test.want)) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
