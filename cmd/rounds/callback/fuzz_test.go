package callback_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
)

// A file of callbacks is either accepted, with all that a callback needs, or refused with
// faults.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"callbacks":[{"name":"acme","corp_id":"ww1","token":{"secret":"T"},"aes_key":{"secret":"K"},"account":"wecom:{open_kfid}"}]}`))
	f.Add([]byte(`{"callbacks":[{"name":"a"},{"name":"a"},null],"other":1}`))
	f.Add([]byte(`{"callbacks":[{"token":"plain","aes_key":{"secret":"../x"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := callback.Read(bytes.NewReader(text))
		var faults strict.Faults
		if err != nil {
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Errorf("an error without faults: %v", err)
			}
			return
		}
		names := make(map[string]bool)
		for _, c := range all {
			if c.Name == "" || c.CorpID == "" || c.Token == "" || c.AESKey == "" || c.Account == "" || names[c.Name] {
				t.Errorf("%q: %+v", text, c)
			}
			names[c.Name] = true
		}
	})
}
