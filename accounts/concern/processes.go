package concern

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/accounts"
)

// startSlack is by how much a process may seem to have begun before another one was last heard of
// that it replaces: it reports when it began in whole seconds, by its host's clock.
const startSlack = time.Second

// namesTold is how many processes are named at most.
const namesTold = 10

// ofSilent returns the concern about the processes that went silent and that none replaces.
func (f *facts) ofSilent() []Concern {
	lost := f.lost()
	if len(lost) == 0 {
		return nil
	}
	if f.returned() && len(lost) == len(f.stats.Processes) {
		return nil // the process that asks is alive, so Redis has told of the time before its outage
	}
	c := Concern{Code: ProcessSilent, Level: Warn, Subject: lost[0].Name, Since: lost[0].Beat, Value: strings.Join(lost[0].Roles, ",")}
	if len(lost) > 1 {
		c.Count, c.Value = len(lost), rolesOf(lost)
		for _, p := range lost[:min(len(lost), namesTold)] {
			c.Names = append(c.Names, p.Name)
		}
	}
	return []Concern{c}
}

// lost returns the silent processes that none replaces, the one that went silent first first.
//
// A process replaces one that went silent if it began after that, on the same host with the same
// roles, as a service manager has it do. Each replaces one, the earliest that is left: two that
// died are not replaced by one that began. It does not matter whether a replacement lives, because
// its own death is a concern of its own.
//
// A data directory belongs to one process at a time. Where everything is in one, a process that
// lives and began later has taken it over, with whatever roles.
func (f *facts) lost() (lost []accounts.Process) {
	begun := slices.SortedFunc(slices.Values(f.stats.Processes), func(a, b accounts.Process) int {
		return cmp.Or(a.Report.Since.Compare(b.Report.Since), cmp.Compare(a.Name, b.Name))
	})
	silent := slices.DeleteFunc(slices.Clone(f.stats.Processes), func(p accounts.Process) bool { return f.alive(p.Beat) })
	slices.SortFunc(silent, func(a, b accounts.Process) int { return cmp.Or(a.Beat.Compare(b.Beat), cmp.Compare(a.Name, b.Name)) })
	taken := make(map[string]bool)
	for _, p := range silent {
		i := slices.IndexFunc(begun, func(by accounts.Process) bool {
			if !by.Report.Since.After(p.Report.Since) || by.Report.Since.Add(startSlack).Before(p.Beat) {
				return false
			}
			return f.sole && f.alive(by.Beat) || !taken[by.Name] && slices.Equal(by.Roles, p.Roles) && by.Report.Host == p.Report.Host
		})
		if i < 0 {
			lost = append(lost, p)
			continue
		}
		taken[begun[i].Name] = true
	}
	return lost
}

// rolesOf returns how many processes have which roles, such as 2 × poller, 1 × monitor,api.
func rolesOf(all []accounts.Process) string {
	counts := make(map[string]int)
	var order []string
	for i := range all {
		roles := strings.Join(all[i].Roles, ",")
		if counts[roles]++; counts[roles] == 1 {
			order = append(order, roles)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return counts[b] - counts[a] })
	for i, roles := range order {
		order[i] = fmt.Sprintf("%d × %s", counts[roles], roles)
	}
	return strings.Join(order, "; ")
}
