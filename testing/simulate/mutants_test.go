package main

import (
	"strings"
	"testing"
)

// Rules of the protocol, each broken on purpose, that whole replicas under faults
// show. Package explore breaks those that an interleaving of single steps shows
// sooner.
func TestMutantsAreFound(t *testing.T) {
	for _, tt := range []struct{ name, script, old, new string }{
		{"a return writes the messages but not the cursor", "return",
			"elseif holds and op == 'cursor' then", "elseif false then"},
		{"a return writes the cursor but not the messages", "return",
			"if holds then\n      redis.call('XADD'", "if false then\n      redis.call('XADD'"},
		{"deregistering leaves fields behind", "deregister",
			"for k = 5, #KEYS do redis.call('HDEL', KEYS[k], unpack(ARGV)) end", ""},
		{"a paused account stays scheduled", "park",
			"redis.call('ZREM', schedule, id)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := small(1)
			fits := 0
			p.mutate = func(text string) string {
				if !strings.Contains(text, "\n-- "+tt.script+":") || !strings.Contains(text, tt.old) {
					return text
				}
				fits++
				return strings.Replace(text, tt.old, tt.new, 1)
			}
			s := simulate(t, p, func(float64) {})
			if fits == 0 {
				t.Fatal("the mutation does not fit the script any more")
			}
			if len(s.violations) == 0 {
				t.Error("nobody noticed")
			}
			for _, v := range s.violations[:min(1, len(s.violations))] {
				t.Log(v)
			}
		})
	}
}
