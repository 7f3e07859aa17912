package secret

import (
	"reflect"
	"testing"
)

// A binding that is accepted names something. It is the same after it was written and read
// again.
func FuzzBinding(f *testing.F) {
	f.Add("hosts=api.example.com,*.weixin.qq.com:443 kinds=imap,http")
	f.Add("hosts=[::1]:5,*. kinds=")
	f.Add("hosts=A.example. hosts=b other=1 \xff")
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBinding(text)
		if err != nil {
			return
		}
		again, err := ParseBinding(b.String())
		if err != nil || !reflect.DeepEqual(again, b) || len(b.Hosts)+len(b.Kinds) == 0 {
			t.Errorf("%q is %+v, then %+v, %v", text, b, again, err)
		}
	})
}
