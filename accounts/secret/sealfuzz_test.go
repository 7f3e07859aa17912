package secret

import "testing"

// A public key that is accepted is the same after it was written and read again.
func FuzzPublicKey(f *testing.F) {
	f.Add(EncodeKey(publicPrefix, make([]byte, keySize)))
	f.Add(publicPrefix + "AAAA")
	f.Add(publicPrefix + "\xff")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := ParsePublicKey(text)
		if err != nil {
			return
		}
		again, err := ParsePublicKey(k.String())
		if err != nil || again.ID() != k.ID() {
			t.Errorf("%q became %q, %v", text, k, err)
		}
	})
}
