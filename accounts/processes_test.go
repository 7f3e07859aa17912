package accounts

import (
	"reflect"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/circulate"
)

func TestCompareProcesses(t *testing.T) {
	process := func(name string, settings map[string]string) Process {
		return Process{Name: name, Report: ProcessReport{Settings: settings}}
	}
	all := []Process{
		process("a", map[string]string{"X": "1", "Y": "1", "Z": "1"}),
		process("b", map[string]string{"X": "1", "Y": "2"}),
		process("c", map[string]string{"X": "2", "Z": "1"}),
		process("dead", map[string]string{"X": "3", "Z": "3"}),
		process("old", nil),
	}
	for range 2 { // the second time changes nothing
		Compare(all, func(p *Process) bool { return p.Name != "dead" })
	}
	for i, want := range [][]Difference{
		{{Setting: "Y", Value: "1"}}, {{Setting: "Y", Value: "2"}}, {{Setting: "X", Value: "2", Usual: "1"}}, nil, nil,
	} {
		if !reflect.DeepEqual(all[i].Differs, want) {
			t.Errorf("%s: %+v", all[i].Name, all[i].Differs)
		}
	}
}

func TestProcessesOf(t *testing.T) {
	since := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	got := processesOf([]circulate.Member{
		{Process: circulate.Process{Name: "b", Roles: "api,poller"}, Said: since, About: []byte(`{"version":"v1","host":"h","since":"2026-11-20T08:00:00Z","settings":{"X":"1"},"later":1}`)},
		{Process: circulate.Process{Name: "a", Roles: "monitor"}, Said: since, About: []byte(`[]`)},
	})
	want := []Process{
		{Name: "a", Roles: []string{"monitor"}, Beat: since},
		{Name: "b", Roles: []string{"api", "poller"}, Beat: since, Report: ProcessReport{Version: "v1", Host: "h", Since: since, Settings: map[string]string{"X": "1"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
