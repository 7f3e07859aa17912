package message

import (
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/testing/redistest"
)

// The bodies of requests about messages are accepted in their valid forms, or refused with
// faults.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		"", "{}", `{"ids":["0:1-1","1:2-3"]}`, `{"group":"crm","cursor":"x"}`, `{"ids":[],"group":"\u0000"}`, `{"account":"a","all":true}`,
		`{"consumer":"abcdefghij","from":"start","acknowledge":["0:1-1"],"limit":1000,"wait":"10s"}`, `{"wait":"1e9s","limit":-1,"leave":null}`, "[]",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		judge := func(err error) {
			var faults strict.Faults
			if err != nil && (!errors.As(err, &faults) || len(faults) == 0) {
				t.Errorf("an error without faults: %v", err)
			}
		}
		choice, err := DecodeDeadChoice(body)
		judge(err)
		if err == nil && (len(choice.IDs) == 0) == (choice.Group == "") {
			t.Errorf("%q: %+v", body, choice)
		}
		for _, several := range []bool{true, false} {
			_, err = DecodeWebhookChoice(body, several)
			judge(err)
		}
		turn, err := DecodeGroupRead(body)
		judge(err)
		if err == nil && (turn.Limit < 0 || turn.Limit > MaxLimit || turn.Wait < 0) {
			t.Errorf("%q: %+v", body, turn)
		}
	})
}

// The checksum of a cursor is no signature. Any content is either read as the program would
// write it, or refused.
func FuzzDeadPlace(f *testing.F) {
	ring, err := circulate.Open(f.Context(), redistest.Embedded(f), circulate.Options{Shards: 3})
	if err != nil {
		f.Fatal(err)
	}
	reader := New(ring)
	f.Add([]byte{3, 1, 0, 5, 6}, "1:5-6")
	f.Add([]byte{3, 2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0}, "0:18446744073709551615-0")
	f.Add([]byte{4, 1}, "-1:1-1")
	f.Add([]byte{3}, "2.16:1-1")
	f.Fuzz(func(t *testing.T, content []byte, id string) {
		place, err := reader.deadPlace(accounts.SealCursor(accounts.CursorDead, content))
		switch {
		case errors.Is(err, accounts.ErrCursor):
		case err != nil:
			t.Error(err)
		default:
			if again, err := reader.deadPlace(place.seal(3)); err != nil || again != place || place.shard < 0 || place.shard > 2 {
				t.Errorf("%x: %+v, then %+v, %v", content, place, again, err)
			}
		}
		if name, err := parseEntryID(id); err == nil && name.shard.Handle(name.position.String()) != id {
			t.Errorf("%q: %+v", id, name)
		}
	})
}
