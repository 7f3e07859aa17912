package poller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func describe(limits limitsOfCheck) string {
	var texts []string
	for _, l := range limits {
		if l != nil {
			texts = append(texts, fmt.Sprintf("%s: %v %d %d", l.Name, l.Every, l.Burst, l.Concurrency))
		}
	}
	return strings.Join(texts, "; ")
}

func TestLimitsOfAnAccount(t *testing.T) {
	const text = `
		http rate=50/s concurrency=20; http/* rate=10/m burst=3
		http/api.example.com rate=2/s concurrency=2 ; ;
		http/%2A concurrency=7; http/a%3B%20b/c burst=2 rate=0.5/h
		feed/* concurrency=1
		wecom-kf rate=3/s
		egress/* rate=5/s; egress/berlin concurrency=3
	`
	limits, err := ParseLimits(text, []string{"feed", "http", "wecom-kf"})
	if err != nil {
		t.Fatal(err)
	}
	const http = "http: 20ms 50 20"
	for _, test := range []struct{ kind, key, want string }{
		{"http", "", http},
		{"http", "other.example.com", "http/other.example.com: 6s 3 0; " + http},
		{"http", "api.example.com", "http/api.example.com: 500ms 2 2; " + http},
		{"http", "*", "http/*: 0s 0 7; " + http},
		{"http", "a; b/c", "http/a; b/c: 2h0m0s 2 0; " + http},
		{"feed", "", ""},
		{"feed", "x", "feed/x: 0s 0 1"},
		{"wecom-kf", "corp", "wecom-kf: 333.334ms 3 0"}, // never more often than it says
		{"mail", "x", ""},
	} {
		if got := describe(limits.of(test.kind, test.key, "")); got != test.want {
			t.Errorf("%s %q: %s, want %s", test.kind, test.key, got, test.want)
		}
		for _, l := range limits.leased(time.Minute).of(test.kind, test.key, "") {
			if l == nil {
				continue
			}
			if err := l.Validate(); err != nil || l.Lease != time.Minute {
				t.Errorf("%s %q: %v, lease %v", test.kind, test.key, err, l.Lease)
			}
		}
	}
	for _, test := range []struct{ key, way, want string }{
		{"", "paris", http + "; egress/paris: 200ms 5 0"},
		{"api.example.com", "berlin", "http/api.example.com: 500ms 2 2; " + http + "; egress/berlin: 0s 0 3"},
	} {
		if got := describe(limits.of("http", test.key, test.way)); got != test.want {
			t.Errorf("%q by %q: %s, want %s", test.key, test.way, got, test.want)
		}
	}
	if got := limits.Ways(); !slices.Equal(got, []string{"berlin"}) {
		t.Errorf("the ways with a rule are %q", got)
	}
	none, err := ParseLimits(" ;\n", nil)
	if got := describe(none.of("http", "x", "")) + describe(Limits{}.leased(1).of("http", "x", "")); err != nil || got != "" {
		t.Errorf("without rules: %s, %v", got, err)
	}
}

func TestLimitsOfKindsAreFoundWithoutAllocation(t *testing.T) {
	limits, err := ParseLimits("http rate=1/s", nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { limits.of("feed", "a", "w"); limits.of("http", "a", "w") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestLimitFaultsAreToldAllAtOnceWithTheirRule(t *testing.T) {
	for rule, want := range map[string]string{
		"htpp rate=1/s":                           `kind "htpp" is not known; the kinds are feed, http`,
		"rate=1/s":                                "must begin with KIND",
		"/x rate=1/s":                             "a kind is missing",
		"http/ rate=1/s":                          "a rate key is missing",
		"http/%zz rate=1/s":                       "hexadecimal",
		"http":                                    "rate= or concurrency= is missing",
		"http burst=3 concurrency=1":              "burst: needs a rate",
		"http rate":                               "rate: must be a number and /s, /m or /h",
		"http rate=5":                             `is "5"`,
		"http rate=0/s":                           "rate: must be between one in 30 days",
		"http rate=-1/s":                          "rate: must be a number",
		"http rate=1/d":                           "rate: must be a number",
		"http rate=1e9/s":                         "rate: must be a number",
		"http rate=NaN/s":                         "rate: must be a number",
		"http rate=2000000/s":                     "rate: must be between one in 30 days and 1000000/s",
		"http rate=0.000000001/h":                 "rate: must be between one in 30 days",
		"http rate=1/h burst=1000000":             "a whole burst must take no more than",
		"http rate=1/s burst=0":                   "burst: must be a number from 1",
		"http rate=1/s burst=1.5":                 "burst: must be a number from 1",
		"http concurrency=0":                      "concurrency: must be a number from 1",
		"http concurrency=x":                      `concurrency: must be a number from 1 to 1000000, is "x"`,
		"http concurency=1":                       "concurency: is not known; a rule may have rate=",
		"http rate=1/s rate=2/s":                  "rate: is given twice",
		"http rate=1/s; http rate=2/s":            "http already has a rule",
		"http/* rate=1/s; http/* concurrency=1":   "http/* already has a rule",
		"http/a concurrency=1; http/a rate=1/s":   "http/a already has a rule",
		"http/a concurrency=1; http/%61 rate=1/s": "http/%61 already has a rule",
		"egress rate=1/s":                         "must be egress/* for each way out, or egress/NAME for one",
		"egress/a":                                "rate= or concurrency= is missing",
	} {
		_, err := ParseLimits(rule, []string{"feed", "http"})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "limits: rule ") {
			t.Errorf("%q: %v, want %s", rule, err, want)
		}
	}
	_, err := ParseLimits("htpp rate=x concurrency=0; http rate=1/s\n ;feed", []string{"feed", "http"})
	for _, want := range []string{
		`rule 1, "htpp rate=x concurrency=0": kind`, "rule 1, \"htpp rate=x concurrency=0\": rate", "concurrency", `rule 3, "feed": rate= or`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

func FuzzParseLimits(f *testing.F) {
	f.Add("http rate=50/s concurrency=20; http/* rate=10/m burst=3")
	f.Add("http/a%20b rate=0.5/h\nfeed burst=1")
	f.Fuzz(func(t *testing.T, text string) {
		limits, err := ParseLimits(text, nil)
		if err != nil {
			return
		}
		for kind := range limits.kinds {
			for _, l := range limits.leased(time.Minute).of(kind, "key", "way") {
				if l == nil {
					continue
				}
				if err := l.Validate(); err != nil || l.Every%time.Microsecond != 0 {
					t.Errorf("%+v: %v", *l, err)
				}
			}
		}
	})
}
