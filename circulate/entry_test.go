package circulate

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestEntryTravelsAsWritten(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Entry
	}{
		"claimed":          {"00000000000042|1795226313819|alice00000|shop-1", Entry{42, time.UnixMilli(1795226313819), "alice00000", "shop-1"}},
		"waiting":          {"00000000000042|1795226313819|----------|shop-1", Entry{42, time.UnixMilli(1795226313819), "", "shop-1"}},
		"bars in the id":   {"00000000000001|0000000000001|alice00000|a|b|", Entry{1, time.UnixMilli(1), "alice00000", "a|b|"}},
		"bar as id":        {"00000000000001|0000000000001|alice00000||", Entry{1, time.UnixMilli(1), "alice00000", "|"}},
		"id is an entry":   {"00000000000001|0000000000001|alice00000|00000000000002|0000000000002|bob0000000|x", Entry{1, time.UnixMilli(1), "alice00000", "00000000000002|0000000000002|bob0000000|x"}},
		"Chinese id":       {"00000000000001|0000000000001|alice00000|客服·一", Entry{1, time.UnixMilli(1), "alice00000", "客服·一"}},
		"one byte of id":   {"00000000000000|0000000000000|alice00000|a", Entry{0, time.UnixMilli(0), "alice00000", "a"}},
		"largest numbers":  {"99999999999999|9999999999999|ZZZZZZZZZZ|a", Entry{99999999999999, time.UnixMilli(9999999999999), "ZZZZZZZZZZ", "a"}},
		"longest id":       {"00000000000001|0000000000001|alice00000|" + strings.Repeat("x", MaxIDLength), Entry{1, time.UnixMilli(1), "alice00000", strings.Repeat("x", MaxIDLength)}},
		"broken UTF-8 too": {"00000000000001|0000000000001|alice00000|\xff\x00", Entry{1, time.UnixMilli(1), "alice00000", "\xff\x00"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseEntry(test.text)
			if err != nil || got != test.want {
				t.Errorf("read as %+v, %v; want %+v", got, err, test.want)
			}
			if text := test.want.String(); text != test.text {
				t.Errorf("written as %q, want %q", text, test.text)
			}
		})
	}
}

func TestParseEntryRefusesWhatIsNone(t *testing.T) {
	good := "00000000000042|1795226313819|alice00000|shop-1"
	for name, text := range map[string]string{
		"empty":              "",
		"garbage":            "x",
		"no id":              "00000000000042|1795226313819|alice00000|",
		"no last bar":        "00000000000042|1795226313819|alice00000",
		"id too long":        "00000000000042|1795226313819|alice00000|" + strings.Repeat("x", MaxIDLength+1),
		"short ticket":       good[1:],
		"long ticket":        "0" + good,
		"letter in ticket":   "0000000000004x" + good[14:],
		"signed ticket":      "+0000000000042" + good[14:],
		"negative ticket":    "-0000000000042" + good[14:],
		"spaces in ticket":   "            42" + good[14:],
		"underscore":         "0000000000_042" + good[14:],
		"Arabic digits":      "٤٤٤٤٤٤٤" + good[14:], // fourteen bytes
		"letter in stamp":    good[:15] + "179522631381x" + good[28:],
		"negative stamp":     good[:15] + "-000000000001" + good[28:],
		"no first bar":       good[:14] + "-" + good[15:],
		"no second bar":      good[:28] + "-" + good[29:],
		"no third bar":       good[:39] + "-" + good[40:],
		"bar in the replica": good[:29] + "alice|0000|shop-1",
		"zeroes":             strings.Repeat("0", 200),
		"bars":               strings.Repeat("|", 60),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParseEntry(text); !errors.Is(err, ErrMalformedEntry) || got != (Entry{}) {
				t.Errorf("read as %+v, %v", got, err)
			}
		})
	}
}

func FuzzParseEntry(f *testing.F) {
	for _, text := range []string{
		"", "|", "00000000000042|1795226313819|alice00000|shop-1", "00000000000042|1795226313819|----------|a|b",
		"00000000000042|1795226313819|alice|0000|shop-1", "-0000000000042|1795226313819|alice00000|x", strings.Repeat("9", 300),
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		entry, err := ParseEntry(text)
		if err != nil {
			if !errors.Is(err, ErrMalformedEntry) {
				t.Errorf("%q: %v, want ErrMalformedEntry", text, err)
			}
			return
		}
		if again := entry.String(); again != text {
			t.Errorf("%q became %q", text, again)
		}
		if len(entry.ID) == 0 || len(entry.ID) > MaxIDLength || entry.Ticket < 0 {
			t.Errorf("%q gave %+v", text, entry)
		}
	})
}

func FuzzEntryIsReadAsWritten(f *testing.F) {
	f.Add(uint64(42), uint64(1795226313819), "alice00000", "shop-1")
	f.Add(uint64(0), uint64(0), "", "|")
	f.Add(uint64(math.MaxUint64), uint64(math.MaxUint64), "ZZZZZZZZZZ", "客服")
	f.Fuzz(func(t *testing.T, ticket, stamp uint64, replica, id string) {
		entry := Entry{Ticket: int64(ticket % 1e14), Stamp: time.UnixMilli(int64(stamp % 1e13)), Replica: replica, ID: id}
		if replica != "" && ValidateReplica(replica) != nil || ValidateID(id) != nil {
			return
		}
		if got, err := ParseEntry(entry.String()); err != nil || got != entry {
			t.Errorf("%q was read as %+v, %v; want %+v", entry.String(), got, err, entry)
		}
	})
}

func TestValidateID(t *testing.T) {
	for name, test := range map[string]struct{ id, want string }{
		"letter":           {"a", ""},
		"spaces and bars":  {" a|b {c}", ""},
		"Chinese":          {"客服", ""},
		"longest":          {strings.Repeat("x", 256), ""},
		"soft hyphen":      {"a\u00ad", ""},
		"empty":            {"", "empty"},
		"too long":         {strings.Repeat("x", 257), "at most 256 bytes, has 257"},
		"too long in utf8": {strings.Repeat("客", 86), "has 258"},
		"not UTF-8":        {"a\xff", "UTF-8"},
		"newline":          {"a\nb", "control"},
		"NUL":              {"a\x00", "control"},
		"DEL":              {"a\x7f", "control"},
		"C1":               {"a\u0085", "control"},
		"last of C1":       {"a\u009f", "control"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ValidateID(test.id)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%q: %v, want %q", test.id, err, test.want)
			}
		})
	}
}

func TestReplicaNamesFitEntriesAndDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		name := NewReplica()
		if err := ValidateReplica(name); err != nil || seen[name] {
			t.Fatalf("%q: %v, seen before: %v", name, err, seen[name])
		}
		seen[name] = true
	}
	for _, name := range []string{"", "short", "elevenchars", "has|bar000", nobody, "space 0000", "ümlaut000", "客服客1"} {
		if ValidateReplica(name) == nil {
			t.Errorf("%q was accepted (%d bytes, %d letters)", name, len(name), utf8.RuneCountInString(name))
		}
	}
}
