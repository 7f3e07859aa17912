package egress

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	ways, err := Parse("berlin socks5://me:pass@10.0.0.1:1080/ kind=weixin label=team=a%20b; home source://[2001:db8::7] all\nplain direct kind=http")
	if want := "berlin socks5://10.0.0.1:1080 kind=weixin label=team=a b; home source://[2001:db8::7] all; plain direct kind=http"; err != nil || ways.String() != want {
		t.Errorf("got %q, %v", ways, err)
	}
	for text, want := range map[string]string{
		"socks5://me:s3cret@h:1":  "must begin with a name",
		"a":                       "where it leads is missing",
		"a b://me:s3cret@h:1":     "where it leads must be",
		"a http://me:s3cret@h":    "where it leads must be",
		"a http://h:1/p":          "where it leads must be",
		"a source://h":            "source:// must be followed by an address",
		"a direct; a direct":      "the name is given twice",
		"a direct who":            "who goes by it must be",
		"a direct kind=":          "who goes by it must be",
		"a direct kind=%x":        "% must be followed",
		"a direct label=egress=b": "needs no word here",
		"a direct" + strings.Repeat(" all", maxWho+1): "at most",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.60q: got %v, want %q", text, err, want)
		}
	}
}

func TestChoose(t *testing.T) {
	ways, err := Parse("all direct all; kind direct kind=k; label direct label=l=v; own direct")
	if err != nil {
		t.Fatal(err)
	}
	for want, a := range map[string]Account{
		"all": {Kind: "other"}, "kind": {Kind: "k"}, "label": {Kind: "k", Labels: map[string]string{"l": "v"}},
		"own": {Kind: "k", Labels: map[string]string{"l": "v", Label: "own"}},
	} {
		if got, err := ways.Choose(&a); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	var unknown *UnknownError
	if _, err := ways.Choose(&Account{Labels: map[string]string{Label: "none"}}); !errors.As(err, &unknown) {
		t.Errorf("a way that there is not: %v", err)
	}
	if got, err := (Ways{}).Choose(&Account{Labels: map[string]string{Label: "none"}}); err != nil || got != "" {
		t.Errorf("without ways: %q, %v", got, err)
	}
}

// Accounts are spread over ways of one step. Another way takes its share, and moves nobody else.
func TestAccountsStayWithTheirWay(t *testing.T) {
	two, _ := Parse("a direct all; b direct all")
	three, _ := Parse("c direct all; b direct all; a direct all")
	count := make(map[string]int)
	for i := range 3000 {
		one := &Account{ID: fmt.Sprint("account-", i)}
		before, _ := two.Choose(one)
		after, _ := three.Choose(one)
		if count[after]++; after != before && after != "c" {
			t.Fatalf("%s moved from %s to %s", one.ID, before, after)
		}
	}
	for way, n := range count {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 3000 go by %s", n, way)
		}
	}
}
