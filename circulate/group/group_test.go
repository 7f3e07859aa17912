package group

import "testing"

// Others rely on these names: a change is a change of format.
func TestKeyNamesAreAsDocumented(t *testing.T) {
	p := presenceOf("ns", "g")
	if p.Beats != "ns:consumers:g" || p.Reports != "{ns:consumers:g}:reports" {
		t.Errorf("got %+v", p)
	}
}
