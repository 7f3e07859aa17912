package pages

import (
	"testing"
	"time"
)

// TestSharedRepliesEndWithAChange changes something while a reply is shared. A reply to a request
// from before the change is shown to nobody afterwards, even if it comes later.
func TestSharedRepliesEndWithAChange(t *testing.T) {
	s := newShared()
	get := func(key, reply string) string {
		got, err := s.getWithin(key, time.Hour, func() ([]byte, error) { return []byte(reply), nil })
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if get("letters", "three") != "three" || get("letters", "two") != "three" {
		t.Error("a reply is not shared")
	}
	s.forget()
	if got := get("letters", "two"); got != "two" {
		t.Errorf("after a change the reply is still %q", got)
	}
	if _, err := s.getWithin("groups", time.Hour, func() ([]byte, error) {
		s.forget()
		return []byte("before"), nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := get("groups", "after"); got != "after" {
		t.Errorf("a reply that was asked before a change is shared as %q", got)
	}
}
