package circulate_test

import (
	"fmt"
	"testing"

	"github.com/rounds-dev/rounds/circulate"
)

// A replica that leaves moves only its own shards, and each has about as many as the
// others.
func TestPreferredMovesOnlyWhatItMust(t *testing.T) {
	const shards = 1000
	replicas := []string{"alice00000", "bob0000000", "carol00000", "dave000000"}
	const gone = "carol00000"
	rest := []string{"dave000000", "alice00000", "bob0000000"} // in another order, which must not count
	counts := make(map[string]int)
	for shard := range shards {
		before, after := circulate.Preferred(shard, replicas), circulate.Preferred(shard, rest)
		counts[before]++
		if before != gone && after != before || after == gone {
			t.Fatalf("shard %d: %s, then %s", shard, before, after)
		}
	}
	for _, name := range replicas {
		if n := counts[name]; n < shards/4*3/4 || n > shards/4*5/4 {
			t.Errorf("%s has %d of %d shards", name, n, shards)
		}
	}
	if got := circulate.Preferred(7, nil); got != "" {
		t.Errorf("of no replicas %q is preferred", got)
	}
}

func TestKeysHaveTheRolesThatStrangersSee(t *testing.T) {
	for key, want := range map[string]circulate.KeyRole{
		"{rounds:07}:tickets":           circulate.KeyOfAccounts,
		"{rounds:g1:07}:tickets":        circulate.KeyOfAccounts,
		"{rounds:07}:messages":          circulate.KeyOfMessages,
		"rounds:replicas":               circulate.KeyOfPresence,
		"{rounds:replicas}:processes":   circulate.KeyOfPresence,
		"{rounds:07}:ticket_seq":        0,
		"{rounds:07}:messages:applied":  0,
		"{other:replicas}:about:me":     0,
		"rounds:meta":                   0,
		"a key without any colon in it": 0,
		"":                              0,
	} {
		if got := circulate.RoleOf(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := fmt.Sprint(circulate.KeyPatterns("ns")); got != "[{ns:* ns:*]" {
		t.Errorf("patterns %s", got)
	}
}
