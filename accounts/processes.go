package accounts

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

// ProcessReport is what a process of the service reports about itself.
type ProcessReport struct {
	Version string    `json:"version,omitempty"`
	Host    string    `json:"host,omitempty"`
	Since   time.Time `json:"since,omitzero"` // by its own clock

	// Settings are the settings, by name, on which all processes of its roles should agree.
	Settings map[string]string `json:"settings,omitempty"`

	// TrailLost is how many entries of the trail Redis refused from this process, and
	// TrailLostAt when that last happened, by its own clock.
	TrailLost   int       `json:"trail_lost,omitempty"`
	TrailLostAt time.Time `json:"trail_lost_at,omitzero"`

	// Files is what keeps the process from fetching files of messages; nil: nothing does.
	Files *FilesReport `json:"files,omitempty"`
}

// FilesReport is what keeps a process from fetching files. Its times are by the process's own clock.
type FilesReport struct {
	StoreSince time.Time `json:"store_since,omitzero"` // since when the store has failed; zero: it works
	StoreWhy   string    `json:"store_why,omitempty"`
	FullSince  time.Time `json:"full_since,omitzero"` // since when a quota has refused files; zero: none does
	Waiting    int       `json:"waiting,omitempty"`   // messages whose files are put off
	Soonest    time.Time `json:"soonest,omitzero"`    // when the first of these files may be forgotten
	Account    string    `json:"account,omitempty"`   // whose file that is
}

// Process is a process of the service, of any role.
type Process struct {
	Name   string
	Roles  []string
	Beat   time.Time // its last sign of life, by Redis' clock
	Report ProcessReport

	// Differs are the settings whose values differ from other processes' values, sorted.
	Differs []Difference
}

// Difference is a setting whose value differs from other processes' value.
type Difference struct {
	Setting string `json:"setting"`
	Value   string `json:"value" doc:"The value in this process."`
	Usual   string `json:"usual,omitempty" doc:"The value in more than half of the processes; left out if there is none."`
}

// processesOf returns the processes of a roster, the oldest first.
func processesOf(members []circulate.Member) []Process {
	all := make([]Process, len(members))
	for i, m := range members {
		all[i] = Process{Name: m.Name, Roles: strings.Split(m.Roles, ","), Beat: m.Said}
		// A process of another version may report something else. Its presence is what counts.
		_ = json.Unmarshal(m.About, &all[i].Report)
	}
	slices.SortFunc(all, func(a, b Process) int {
		return cmp.Or(a.Report.Since.Compare(b.Report.Since), strings.Compare(a.Name, b.Name))
	})
	return all
}

// Compare sets Differs of every process that is alive. The value that more than half of
// these processes have is the usual one, and only other values differ. Without a usual
// value all values differ.
func Compare(all []Process, alive func(*Process) bool) {
	values := make(map[string]map[string]int)
	for i := range all {
		all[i].Differs = nil
		if !alive(&all[i]) {
			continue
		}
		for name, value := range all[i].Report.Settings {
			if values[name] == nil {
				values[name] = make(map[string]int)
			}
			values[name][value]++
		}
	}
	for i := range all {
		if !alive(&all[i]) {
			continue
		}
		p := &all[i]
		for _, name := range slices.Sorted(maps.Keys(p.Report.Settings)) {
			value := p.Report.Settings[name]
			usual := usualOf(values[name])
			if len(values[name]) > 1 && (usual == nil || *usual != value) {
				d := Difference{Setting: name, Value: value}
				if usual != nil {
					d.Usual = *usual
				}
				p.Differs = append(p.Differs, d)
			}
		}
	}
}

// usualOf returns the value that more than half have, or nil.
func usualOf(counts map[string]int) *string {
	all := 0
	for _, n := range counts {
		all += n
	}
	for value, n := range counts {
		if 2*n > all {
			return &value
		}
	}
	return nil
}
