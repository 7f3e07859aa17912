package main

import "testing"

// What became of an account's mails is judged exactly, by Message-IDs and UIDVALIDITY.
func TestTallyOfMails(t *testing.T) {
	for name, c := range map[string]struct {
		remembers bool
		found     []string // ids of the first mail
		want      mailSum
	}{
		"found":                                    {found: []string{"2:1"}},
		"found again under another UIDVALIDITY":    {found: []string{"1:1", "2:1"}, want: mailSum{again: 1}},
		"never found":                              {want: mailSum{missing: 1}},
		"not found under the new UIDVALIDITY":      {found: []string{"1:1"}, want: mailSum{missing: 1}},
		"twice under one UIDVALIDITY":              {found: []string{"2:1", "2:3"}, want: mailSum{doubled: 1}},
		"the same id twice":                        {found: []string{"2:1", "2:1"}, want: mailSum{doubled: 1}},
		"twice under the old UIDVALIDITY":          {found: []string{"1:1", "1:2", "2:1"}, want: mailSum{doubled: 1, again: 1}},
		"remembered":                               {remembers: true, found: []string{"1:1"}},
		"remembered, never found":                  {remembers: true, want: mailSum{missing: 1}},
		"remembered, but found again all the same": {remembers: true, found: []string{"1:1", "2:1"}, want: mailSum{doubled: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &mailAccount{id: "mail-0", remembers: c.remembers, mails: []string{inbox, archive}, validity: map[string]uint32{inbox: 2, archive: 3}}
			found := map[string][]string{a.messageID(2): {"3:1:Archive"}}
			if c.found != nil {
				found[a.messageID(1)] = c.found
			}
			var got mailSum
			a.tally(&got, found)
			if late := len(got.late) > 0; late != (c.want.missing > 0) {
				t.Errorf("the account is late: %t", late)
			}
			if got.posted != 2 || got.missing != c.want.missing || got.doubled != c.want.doubled || got.strange != 0 || got.again != c.want.again {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	a, got := &mailAccount{id: "mail-0"}, mailSum{}
	if a.tally(&got, map[string][]string{"": {"1:1"}}); got.strange != 1 {
		t.Errorf("a mail that nobody delivered: %+v", got)
	}
}
