package message

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// A search meets every stored message once, the newest first, however few it is asked for at a time,
// and goes on from a position that it had.
func TestSearchMeetsEveryMessageOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, server redistest.Redis) {
		ctx := context.Background()
		r, ring := newWorld(t, server, 4)
		for i := range 7 {
			stream(t, r, ring, fmt.Sprintf("id-%d", i), 40+i)
		}
		const all = 40*7 + 21
		begin, err := r.Position(ctx, FromNow)
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{1, 7, 500} {
			seen, last := make(map[string]bool), circulate.StreamID{Ms: 1 << 62}
			search, err := r.Search(begin, "", time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			if n, err := search.Stored(ctx); n != all || err != nil {
				t.Fatalf("%d stored, %v", n, err)
			}
			for turn := 0; ; turn++ {
				found, err := search.Next(ctx, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(found) == 0 {
					break
				}
				for i := range found {
					id, err := circulate.ParseStreamID(found[i].Position)
					if err == nil {
						err = search.Pass(&found[i])
					}
					if err != nil || last.Before(id) {
						t.Fatalf("%v after %v, %v", id, last, err)
					}
					last = id
					seen[fmt.Sprint(found[i].Shard, found[i].Position)] = true
				}
				if turn%3 == 2 { // go on as another request does
					if search, err = r.Search(search.Position(), "", time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(seen) != all {
				t.Errorf("%d at a time: %d of %d", limit, len(seen), all)
			}
		}
		one, err := r.Search(begin, "id-3", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		found, err := one.Next(ctx, 1000)
		for i := range found {
			if found[i].Shard != ring.ShardOf("id-3") {
				t.Errorf("shard %d for one account", found[i].Shard)
			}
		}
		if err != nil || len(found) < 43 {
			t.Errorf("of one account: %d, %v", len(found), err)
		}
		if _, err := r.Search(Position{}, "", time.Time{}); !errors.Is(err, accounts.ErrCursor) {
			t.Errorf("a position of another ring: %v", err)
		}
	})
}

func TestSearchKeepsToItsTimes(t *testing.T) {
	ctx := context.Background()
	server := redistest.Embedded(t)
	r, ring := newWorld(t, server, 2)
	at := time.UnixMilli(1_800_000_000_000)
	conn, err := server.Conn(ctx, ring.Streams().Keys(0).Messages)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for i := range 10 {
		key := ring.Streams().Keys(i % 2).Messages
		if _, err := conn.Do("XADD", key, fmt.Sprintf("%d-1", at.UnixMilli()+int64(i)), "account", "a", "kind", "plain", "id", i, "type", "", "time", "", "data", "{}"); err != nil {
			t.Fatal(err)
		}
	}
	search, err := r.Search(r.WrittenBefore(at.Add(7*time.Millisecond)), "", at.Add(3*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	found, err := search.Next(ctx, 100)
	var ids []string
	for i := range found {
		ids = append(ids, found[i].Message.ID)
	}
	if err != nil || strings.Join(ids, " ") != "6 5 4 3" {
		t.Errorf("%v, %v", ids, err)
	}
	if found, err = search.Next(ctx, 100); len(found) > 0 || err != nil {
		t.Errorf("behind its end: %v, %v", found, err)
	}
}

func TestHasText(t *testing.T) {
	for data, want := range map[string]map[string]bool{
		`{"text":"Invoice 4711","n":12}`:             {"invoice": true, "4711": true, "text": false, "12": false, "": true},
		`{"text":"\u4f60\u597D"}`:                    {"你好": true, "u4f60": false},
		`{"text":"ÄRGER"}`:                           {"ärger": true},
		`{"a":["x",{"b" : "deep \"quoted\" text"}]}`: {`"quoted"`: true, "b": false, "x{": false},
		`"plain"`:                {"plain": true},
		`{"":"","k":""}`:         {"k": false},
		`{"text":"a\\"}`:         {`a\`: true, `a\"`: false},
		`not json "but a string`: {"but a": true, "not": false},
		`{"key\u0041":"v"}`:      {"keya": false, "v": true},
		strings.Repeat("[", 5000) + `"x"` + strings.Repeat("]", 5000): {"x": true},
	} {
		for part, has := range want {
			if got := HasText([]byte(data), part); got != has {
				t.Errorf("%.60s has %q: %t", data, part, got)
			}
		}
	}
}

func TestNamesSender(t *testing.T) {
	for data, want := range map[string]map[string]bool{
		`{"from":"Anna@example.org","text":"for bob"}`:                              {"anna": true, "bob": false},
		`{"from":[{"name":"Anna","address":"a@b"}],"to":[{"address":"bob@b"}]}`:     {"anna": true, "a@b": true, "bob": false},
		`{"message":{"from":{"first_name":"Anna","id":7},"text":"bob"},"x":"carl"}`: {"anna": true, "bob": false, "carl": false},
		`{"author":"Anna","title":"from bob"}`:                                      {"anna": true, "bob": false},
		`{"sender":{"a":{"from":"anna"},"b":"bob"},"c":"carl"}`:                     {"anna": true, "bob": true, "carl": false},
		`["from","anna"]`: {"anna": false},
	} {
		for part, has := range want {
			if got := NamesSender([]byte(data), part); got != has {
				t.Errorf("%s names %q: %t", data, part, got)
			}
		}
	}
}

// What a part of a message's texts is found by, the decoder of the standard library finds, too.
func FuzzHasText(f *testing.F) {
	f.Add(`{"a":"b\u0041","c":["D",{"e":"f"}]}`, "ba")
	f.Add(`{"from":"\ud83d\ude00"}`, "😀")
	f.Fuzz(func(t *testing.T, data, part string) {
		part = Folded(part)
		got := HasText([]byte(data), part)
		NamesSender([]byte(data), part)
		var value any
		if json.Unmarshal([]byte(data), &value) != nil || strings.Count(data, ":") > 0 && part == "" {
			return
		}
		d := json.NewDecoder(strings.NewReader(data))
		if want := textIn(t, d, part); got != want {
			t.Errorf("%q in %s: %t", part, data, got)
		}
	})
}

// textIn reads one value, and reports whether a string in it has the part.
func textIn(t *testing.T, d *json.Decoder, part string) (has bool) {
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			has = textIn(t, d, part) || has
		}
		_, _ = d.Token()
	case json.Delim('{'):
		for d.More() {
			_, _ = d.Token() // the key
			has = textIn(t, d, part) || has
		}
		_, _ = d.Token()
	default:
		if text, ok := token.(string); ok {
			has = strings.Contains(Folded(text), part)
		}
	}
	return has
}

// BenchmarkSearch looks through 300,000 messages in 64 shards for a text that none has.
func BenchmarkSearch(b *testing.B) {
	const shards, each = 64, 300_000 / 64
	ctx := context.Background()
	server := redistest.Connect(b, redistest.Start(b))
	r, ring := newWorld(b, server, shards)
	for shard := range shards {
		key := ring.Streams().Keys(shard).Messages
		conn, err := server.Conn(ctx, key)
		if err != nil {
			b.Fatal(err)
		}
		for n := range each {
			data := fmt.Sprintf(`{"text":"Order %d was shipped and arrives soon.","from":{"id":%d,"name":"Customer %d"},"chat":{"id":%d}}`, n, n, n%1000, n%1000)
			err = errors.Join(err, conn.Send("XADD", key, fmt.Sprintf("%d-%d", 1_800_000_000_000+n, shard), "account", "account-1", "kind", "telegram", "id", n, "type", "message", "time", "", "data", data))
		}
		_, done := conn.Do("")
		if err := errors.Join(err, done, conn.Close()); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		from, err := r.Position(ctx, FromNow)
		if err != nil {
			b.Fatal(err)
		}
		search, err := r.Search(from, "", time.Time{})
		if err != nil {
			b.Fatal(err)
		}
		seen := 0
		for found, err := search.Next(ctx, 500); len(found) > 0 || err != nil; found, err = search.Next(ctx, 500) {
			if err != nil {
				b.Fatal(err)
			}
			for i := range found {
				if err := search.Pass(&found[i]); err != nil || HasText(found[i].Message.Data, "nowhere") {
					b.Fatal("found, or ", err)
				}
			}
			seen += len(found)
		}
		if seen != shards*each {
			b.Fatalf("met %d messages", seen)
		}
	}
}
