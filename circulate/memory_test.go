package circulate

import "testing"

func TestMemoryIsWhatCountsForTheLimit(t *testing.T) {
	const info = "# Memory\r\nused_memory:900\r\nused_memory_human:900B\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction\r\nmem_not_counted_for_evict:100\r\n"
	for text, want := range map[string]Memory{
		info:                                {Used: 800, Limit: 1000},
		"used_memory:5\nmaxmemory:0\n":      {Used: 5},
		"used_memory:5\r\nmaxmemory:10\r\n": {Used: 5, Limit: 10},
		"used_memory:9\nmaxmemory:10\nmaxmemory_policy:allkeys-lru": {Used: 9},
	} {
		if got, err := parseMemory(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}
	if got := (Memory{Used: 850, Limit: 1000}).Share(); got != 0.85 {
		t.Errorf("share %v", got)
	}
	if _, err := parseMemory("# nothing"); err == nil {
		t.Error("an answer without used_memory was read")
	}
}
