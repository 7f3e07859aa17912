package fetch_test

import (
	"strings"
	"testing"

	"github.com/rounds-dev/rounds/poller/fetch"
)

// A list of networks is refused as a whole, or accepted entry by entry.
func FuzzNetworks(f *testing.F) {
	f.Add("10.1.0.0/16, connector.local:8080 ,[fd00::1]:443")
	f.Add("10.1.0.1/16,::ffff:10.0.0.0/104,*,a_b,localhost:99999")
	f.Add(",,169.254.169.254,\xff,0/0")
	f.Fuzz(func(t *testing.T, list string) {
		if _, err := fetch.ParseNetworks(list); err != nil || strings.TrimSpace(list) == "" {
			return
		}
		for entry := range strings.SplitSeq(list, ",") {
			if _, err := fetch.ParseNetworks(entry); err != nil {
				t.Errorf("%q is accepted, and its entry %q is not: %v", list, entry, err)
			}
		}
	})
}
