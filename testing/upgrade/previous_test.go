package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/cadence"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// recording is what the version that was released last left in a Redis: 12 accounts in 8
// shards. It was made with
//
//	go run ./testing/upgrade --accounts 9 --stage 3s --record testing/upgrade/testdata/previous.ndjson
const recording = "testdata/previous.ndjson"

// load writes the recording into a Redis, and returns it by key.
func load(t *testing.T, conn redis.Conn) map[string]recorded {
	t.Helper()
	text, err := os.ReadFile(recording)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]recorded)
	for line := range strings.Lines(string(text)) {
		var r recorded
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if err := r.write(conn); err != nil {
			t.Fatal(err)
		}
		all[r.Key] = r
	}
	return all
}

// nameOf returns what a key is in its shard: ":tickets".
func nameOf(key string) string { return key[strings.LastIndexByte(key, '}')+1:] }

// This version works on what the version before has left: every account is in one place, is
// claimed, checked and returned, and stays in one place. What it writes has the names, types
// and forms that the version before has, which so can go on with it.
func TestWhatThePreviousVersionLeft(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		conn, err := server.Conn(t.Context(), "rounds:meta")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		before := load(t, conn)
		ring, err := circulate.Open(t.Context(), server, circulate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		audited := func(when string) {
			t.Helper()
			if a, err := ring.Audit(t.Context(), circulate.AuditOptions{Records: true}); err != nil || a.Accounts != 12 || len(a.Findings) > 0 || a.Unjudged > 0 {
				t.Fatalf("%s: %+v, %v", when, a, err)
			}
		}
		audited("as it was left")
		found := 0
		for key, r := range before {
			if nameOf(key) != ":accounts" {
				continue
			}
			for i := 0; i < len(r.Value); i += 2 {
				found++
				a, unknown, err := accounts.ReadStored([]byte(r.Value[i+1]))
				if err != nil || a.ID != r.Value[i] || len(unknown) > 0 {
					t.Errorf("%s: %+v, %v, %v", r.Value[i], a, unknown, err)
				}
				if _, err := cadence.Parse(a.Cadence); err != nil {
					t.Error(err)
				}
			}
		}
		checked := 0
		for shard := range ring.Shards() {
			batch, err := ring.Claim(t.Context(), shard, circulate.NewReplica(), 100, 0)
			if err != nil {
				t.Fatal(err)
			}
			var returns []circulate.Return
			for i := range batch.Claims {
				c := &batch.Claims[i]
				if _, err := accounts.ReadMemory(c.State); err != nil {
					t.Errorf("%s: the state of its cadence: %v", c.ID, err)
				}
				returns = append(returns, circulate.Return{Claim: c, Kind: "feed", Due: batch.Now.Add(time.Hour), Cursor: []byte("4"),
					Messages: []circulate.Message{{ID: "new", Type: "message", Time: batch.Now, Data: json.RawMessage(`{}`)}}})
			}
			outcomes, err := ring.Return(t.Context(), shard, returns)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range outcomes {
				if o != circulate.Written {
					t.Errorf("%s: %v", returns[i].Claim.ID, o)
				}
				checked++
			}
		}
		if found != 12 || checked != 12 {
			t.Errorf("%d records, %d accounts checked, want 12", found, checked)
		}
		audited("after a check of each")
		forms := map[string]*regexp.Regexp{":tickets": regexp.MustCompile(`^\d{14}[nul][a-z][0-9a-f]{7}`)}
		names := make(map[string]string)
		for key, r := range before {
			names[nameOf(key)] = r.Type
		}
		keys, err := redis.Strings(conn.Do("KEYS", "{rounds:?}:*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range append(keys, "rounds:meta") {
			now, err := read(conn, key)
			if err != nil {
				t.Fatal(err)
			}
			if was := names[nameOf(key)]; was != now.Type {
				t.Errorf("%s is a %s, and %q in the version before", key, now.Type, was)
			}
			switch form := forms[nameOf(key)]; {
			case form != nil:
				for i := 0; i < len(now.Value); i += 2 {
					if was := before[key].Value; !form.MatchString(now.Value[i+1]) || !form.MatchString(was[slices.Index(was, now.Value[i])+1]) {
						t.Errorf("%s of %s is %q, was %q", key, now.Value[i], now.Value[i+1], was)
					}
				}
			case key == "rounds:meta":
				if !slices.Equal(slices.Sorted(slices.Values(now.Value)), slices.Sorted(slices.Values(before[key].Value))) {
					t.Errorf("meta is %q, was %q", now.Value, before[key].Value)
				}
			case nameOf(key) == ":messages":
				if was, is := fields(before[key].Value), fields(now.Value); !maps.Equal(was, is) {
					t.Errorf("messages have the fields %v, and %v in the version before", is, was)
				}
			}
		}
	})
}

// fields returns the names in a recorded stream.
func fields(value []string) map[string]bool {
	names := make(map[string]bool)
	for len(value) > 1 {
		n := 0
		for _, digit := range value[1] {
			n = 10*n + int(digit-'0')
		}
		for i := 2; i < 2+n; i += 2 {
			names[value[i]] = true
		}
		value = value[2+n:]
	}
	return names
}
