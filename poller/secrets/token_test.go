package secrets

import (
	"strings"
	"testing"
)

func TestTokensAreSealedForTheirAccount(t *testing.T) {
	o := over(nil, nil)
	if sealed, err := o.SealToken("a", "context"); err != nil || sealed != "context" {
		t.Errorf("without a key: got %q, %v", sealed, err)
	}
	old, young := generate(t), generate(t)
	o.SetKeys(Keys{old})
	sealed, err := o.SealToken("a", "context")
	if err != nil || strings.Contains(sealed, "context") {
		t.Fatalf("got %q, %v", sealed, err)
	}
	if again, _ := o.SealToken("a", "context"); again == sealed {
		t.Error("two seals are the same")
	}
	o.SetKeys(Keys{young, old})
	if token, err := o.OpenToken("a", sealed); err != nil || token != "context" {
		t.Errorf("after a rotation: got %q, %v", token, err)
	}
	if token, err := o.OpenToken("a", "context"); err != nil || token != "context" {
		t.Errorf("one that is not sealed: got %q, %v", token, err)
	}
	for name, wrong := range map[string]string{
		"cut": sealed[:len(sealed)-2], "garbage": sealed + "*", "empty": sealed[:strings.LastIndex(sealed, ".")+1], "no key's": sealedToken + "x.AAAA",
	} {
		if token, err := o.OpenToken("a", wrong); err == nil {
			t.Errorf("%s: opened as %q", name, token)
		}
	}
	if token, err := o.OpenToken("b", sealed); err == nil {
		t.Errorf("another account's: opened as %q", token)
	}
	o.SetKeys(Keys{young})
	if token, err := o.OpenToken("a", sealed); err == nil {
		t.Errorf("without its key: opened as %q", token)
	}
}
