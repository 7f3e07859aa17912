package api

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
)

func TestServersAreJudged(t *testing.T) {
	t.Parallel()
	good := StoreNode{Used: 50, Limit: 100, Policy: "noeviction", AppendOnly: "yes", AppendStatus: "ok", Replicas: 2, Guarded: true}
	for name, test := range map[string]struct {
		change func(n *StoreNode)
		want   string
	}{
		"good":              {func(*StoreNode) {}, "memory good within 50, persistence good appends, eviction good keeps, replicas good waits_for_replicas 2"},
		"filling":           {func(n *StoreNode) { n.Used = 80 }, "memory warn filling 80,"},
		"full":              {func(n *StoreNode) { n.Used = 95 }, "memory bad full 95,"},
		"without a limit":   {func(n *StoreNode) { n.Limit = 0 }, "memory note unlimited,"},
		"no memory told":    {func(n *StoreNode) { n.Used = 0 }, "memory note unknown,"},
		"no append":         {func(n *StoreNode) { n.AppendOnly = "no" }, "persistence warn no_append,"},
		"never synced":      {func(n *StoreNode) { n.Fsync = "no" }, "persistence warn no_fsync,"},
		"append fails":      {func(n *StoreNode) { n.AppendStatus = "err" }, "persistence bad append_fails err,"},
		"append not told":   {func(n *StoreNode) { n.AppendOnly = "" }, "persistence note unknown,"},
		"evicts":            {func(n *StoreNode) { n.Policy = "allkeys-lru" }, "eviction bad evicts allkeys-lru,"},
		"may evict":         {func(n *StoreNode) { n.Policy, n.Limit = "allkeys-lru", 0 }, "eviction note may_evict allkeys-lru,"},
		"eviction not told": {func(n *StoreNode) { n.Policy = "" }, "eviction note unknown,"},
		"no replicas":       {func(n *StoreNode) { n.Replicas = 0 }, "replicas note none"},
		"may forget":        {func(n *StoreNode) { n.Guarded = false }, "replicas warn may_forget 2"},
	} {
		n := good
		test.change(&n)
		var got []string
		for _, v := range n.judge() {
			got = append(got, strings.TrimSpace(fmt.Sprint(v.About, " ", v.Level, " ", v.Code, " ", v.Value)))
		}
		if text := strings.Join(got, ", ") + ","; !strings.Contains(text, test.want) {
			t.Errorf("%s: got %q, want %q", name, text, test.want)
		}
	}
	if away := (&StoreNode{Away: true}).judge(); len(away) != 0 {
		t.Errorf("away: %v", away)
	}
}

func TestSettingsAndVersions(t *testing.T) {
	t.Parallel()
	process := func(name, version string, settings ...string) *accounts.Process {
		p := &accounts.Process{Name: name, Report: accounts.ProcessReport{Version: version, Settings: make(map[string]string)}}
		for i := 0; i < len(settings); i += 2 {
			p.Report.Settings[settings[i]] = settings[i+1]
		}
		return p
	}
	living := []*accounts.Process{
		process("p1", "v2", "ROUNDS_B", "1", "ROUNDS_A", "x"), process("p2", "v1", "ROUNDS_B", "2"), process("p3", "v1", "ROUNDS_B", "2"), process("p4", ""),
	}
	want := []SettingValue{
		{Name: "ROUNDS_A", Value: "x"},
		{Name: "ROUNDS_B", Value: "2", Differ: true, Values: []ValueInForce{{"2", []string{"p2", "p3"}}, {"1", []string{"p1"}}}},
	}
	if got := settingsOf(living); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := versionsOf(living); !reflect.DeepEqual(got, []Version{{"v1", 2}, {"", 1}, {"v2", 1}}) {
		t.Errorf("got %+v", got)
	}
	if got := settingsOf(nil); got == nil || len(got) > 0 {
		t.Errorf("of nobody: %+v", got)
	}
}
