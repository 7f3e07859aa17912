package circulate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/circulate/connect"
)

// Others rely on these names: a change is a change of format.
func TestKeyNamesAreAsDocumented(t *testing.T) {
	want := []string{
		"{rounds:07}:message_queue", "{rounds:07}:processing_list", "{rounds:07}:schedule", "{rounds:07}:tickets",
		"{rounds:07}:ticket_seq", "{rounds:07}:accounts", "{rounds:07}:changes", "{rounds:07}:cursors",
		"{rounds:07}:failures", "{rounds:07}:states", "{rounds:07}:strikes", "{rounds:07}:nudges", "{rounds:07}:parked",
		"{rounds:07}:park_reasons", "{rounds:07}:messages", "{rounds:07}:set_aside",
		"{rounds:07}:message_queue:urgent", "{rounds:07}:message_queue:low", "{rounds:07}:message_queue:by_kind", "{rounds:07}:kinds", "{rounds:07}:turns", "{rounds:07}:errors",
		"{rounds:07}:dead", "{rounds:07}:leases", "{rounds:07}:ticket_mark", "{rounds:07}:clock", "{rounds:07}:timeline", "{rounds:07}:timeline:routine",
		"{rounds:07}:leaving", "{rounds:07}:stays", "{rounds:07}:departures", "{rounds:07}:departed", "{rounds:07}:arrivals", "{rounds:07}:carried", "{rounds:07}:known_away",
		"{rounds:07}:sends", "{rounds:07}:sends:line", "{rounds:07}:sends:due", "{rounds:07}:sends:index", "{rounds:07}:sends:ends", "{rounds:07}:sends:names",
		"{rounds:07}:windows",
	}
	keys := newShardKeys("rounds", 64, 7)
	var got []string
	for _, k := range keys.all() {
		got = append(got, k[0])
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var list []string
	for _, k := range (&Ring{namespace: "rounds"}).Files().keys {
		list = append(list, k[0]+" "+k[1])
	}
	if want := []string{"{rounds:files}:rows hash", "{rounds:files}:objects hash", "{rounds:files}:due zset", "{rounds:files}:index zset", "{rounds:files}:read zset",
		"{rounds:files}:condemned hash", "{rounds:files}:totals hash", "{rounds:files}:accounts hash"}; !slices.Equal(list, want) {
		t.Errorf("got  %q\nwant %q", list, want)
	}
	for name, want := range map[string]string{
		keys.queue:      "{rounds:07}:message_queue",
		keys.processing: "{rounds:07}:processing_list",
		keys.schedule:   "{rounds:07}:schedule",
		keys.tickets:    "{rounds:07}:tickets",
		keys.ticketSeq:  "{rounds:07}:ticket_seq",
		keys.ticketMark: "{rounds:07}:ticket_mark",
		keys.accounts:   "{rounds:07}:accounts",
		keys.cursors:    "{rounds:07}:cursors",
		keys.failures:   "{rounds:07}:failures",
		keys.strikes:    "{rounds:07}:strikes",
		keys.nudges:     "{rounds:07}:nudges",
		keys.parked:     "{rounds:07}:parked",
		keys.reasons:    "{rounds:07}:park_reasons",
		keys.messages:   "{rounds:07}:messages",
		metaKey("ns"):   "ns:meta",

		replicasKey("ns"): "ns:replicas",
		reportsKey("ns"):  "{ns:replicas}:reports",

		stalenessKey("ns"): "{ns:replicas}:staleness",
		dutiesKey("ns"):    "{ns:replicas}:duties",
		clockStepKey("ns"): "{ns:replicas}:clock_step",
		keys.clock:         "{rounds:07}:clock",

		keys.dead:                  "{rounds:07}:dead",
		keys.leases:                "{rounds:07}:leases",
		keys.stream().Applied("g"): "{rounds:07}:messages:applied:g",
		keys.knownKeys("a:1")[0]:   "{rounds:07}:known:a:1",
		keys.knownKeys("a:1")[1]:   "{rounds:07}:known_before:a:1",
	} {
		if name != want {
			t.Errorf("%q, want %q", name, want)
		}
	}
}

func TestShardNumbersHaveTheWidthOfTheHighest(t *testing.T) {
	for _, test := range []struct {
		shards, shard int
		want          string
	}{
		{1, 0, "0"}, {10, 0, "0"}, {10, 9, "9"}, {11, 0, "00"}, {11, 10, "10"}, {64, 0, "00"}, {64, 63, "63"},
		{100, 99, "99"}, {101, 7, "007"}, {MaxShards, 42, "00042"},
	} {
		if got, want := newShardKeys("ns", test.shards, test.shard).queue, "{ns:"+test.want+"}:message_queue"; got != want {
			t.Errorf("shard %d of %d: %q, want %q", test.shard, test.shards, got, want)
		}
	}
	seen := make(map[string]bool)
	for shard := range 64 {
		name := newShardKeys("rounds", 64, shard).queue
		if want := fmt.Sprintf("{rounds:%02d}:message_queue", shard); name != want || seen[name] {
			t.Errorf("shard %d: %q, want %q", shard, name, want)
		}
		seen[name] = true
	}
}

// hashTag returns what a cluster places a key by: the text between its first { and the }
// that follows, if it is not empty.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

func TestAllKeysOfAShardShareOneHashTag(t *testing.T) {
	for _, namespace := range []string{"rounds", "a.b-c_d", "0"} {
		for _, shards := range []int{1, 64, MaxShards} {
			keys := newShardKeys(namespace, shards, shards-1)
			for _, k := range keys.all() {
				if want := fmt.Sprintf("%s:%d", namespace, shards-1); hashTag(k[0]) != want {
					t.Errorf("%q is placed by %q, want %q", k[0], hashTag(k[0]), want)
				}
			}
		}
		for _, key := range []string{reportsKey(namespace), stalenessKey(namespace), dutiesKey(namespace)} {
			if got, want := hashTag(key), hashTag(replicasKey(namespace)); got != want {
				t.Errorf("%q is placed by %q, the replicas by %q", key, got, want)
			}
		}
	}
}

func TestShardOfIsCRC32(t *testing.T) {
	for _, test := range []struct {
		id     string
		shards int
		want   int
	}{
		{"123456789", 1, 0}, // 0xcbf43926, the check value of CRC-32/ISO-HDLC
		{"123456789", 64, 0x26},
		{"123456789", MaxShards, 0x3926},
		{"123456789", 1000, 0xcbf43926 % 1000},
		{"a", 64, 0xe8b7be43 % 64},
		{"The quick brown fox jumps over the lazy dog", 64, 0x414fa339 % 64},
		{"", 64, 0},
	} {
		if got := shardOf(test.id, test.shards); got != test.want {
			t.Errorf("%q of %d shards: %d, want %d", test.id, test.shards, got, test.want)
		}
	}
	of := make([]int, 64)
	for i := range 64_000 {
		of[shardOf(fmt.Sprintf("shop-%d", i), 64)]++
	}
	if least, most := slices.Min(of), slices.Max(of); least < 700 || most > 1300 {
		t.Errorf("of 64,000 accounts a shard has %d to %d", least, most)
	}
}

func TestNamespacesThatWouldBreakKeysAreRefused(t *testing.T) {
	server := connect.NewEmbedded()
	t.Cleanup(func() { _ = server.Close() })
	for _, namespace := range []string{"rounds", "a", "A.b-c_9", strings.Repeat("n", 64)} {
		if _, err := Open(context.Background(), server, Options{Namespace: namespace, Shards: 1}); err != nil {
			t.Errorf("%q: %v", namespace, err)
		}
	}
	for _, namespace := range []string{"a:b", "{a}", "a b", "a\n", "ä", "a*", strings.Repeat("n", 65)} {
		if _, err := Open(context.Background(), server, Options{Namespace: namespace, Shards: 1}); err == nil || !strings.Contains(err.Error(), "namespace") {
			t.Errorf("%q: %v", namespace, err)
		}
	}
	for _, shards := range []int{-1, MaxShards + 1} {
		if _, err := Open(context.Background(), server, Options{Namespace: "other", Shards: shards}); err == nil {
			t.Errorf("%d shards were accepted", shards)
		}
	}
}

// The id of an account is a part of some keys, and may be any text.
func TestRoleOfAKeyWithAnID(t *testing.T) {
	keys := newShardKeys("ns", 64, 7)
	for key, want := range map[string]KeyRole{
		keys.tickets: KeyOfAccounts, keys.messages: KeyOfMessages, replicasKey("ns"): KeyOfPresence,
		keys.knownKeys("a")[0]: 0, keys.knownKeys("}:tickets")[0]: 0, keys.knownKeys("{ns:07}:messages")[1]: 0,
	} {
		if got := RoleOf(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}
