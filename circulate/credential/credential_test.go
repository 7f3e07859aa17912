package credential

import (
	"strings"
	"testing"
)

func TestCredentialsShareTheirOwnersTag(t *testing.T) {
	one, pause := keysOf("ns", Ref{Owner: "{a}", Name: "x"})
	two, same := keysOf("ns", Ref{Owner: "{a}", Name: "y"})
	other, _ := keysOf("ns", Ref{Owner: "b", Name: "x"})
	if pause != same || hashTag(one) != hashTag(pause) || hashTag(two) != hashTag(one) || one == two || hashTag(other) == hashTag(one) {
		t.Errorf("got %q, %q, %q and %q", one, two, pause, other)
	}
	if !strings.HasPrefix(one, "ns:credentials:{") {
		t.Errorf("got %q", one)
	}
}

// hashTag is what a cluster places a key by.
func hashTag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}
