package feed

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/fetch"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/testing/checktest"
)

// paced checks a site and returns the pause and the cursor.
func paced(t *testing.T, s *site, cursor []byte, pace string, limit int) (time.Duration, []byte) {
	t.Helper()
	config := map[string]string{"url": s.url}
	if pace != "" {
		config["pace"] = pace
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	result, err := New(checktest.Client(t, fetch.Options{}), secrets.Source{}).Check(t.Context(), poller.Request{Config: raw, Cursor: cursor, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return result.NextPollAfter, result.Cursor
}

// What WordPress, RSS 2.0 and the module Syndication write, and what caches say.
func TestAFeedSetsThePace(t *testing.T) {
	const syndication = ` xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"`
	for name, test := range map[string]struct {
		channel string
		header  http.Header
		want    time.Duration
	}{
		"nothing":              {"", nil, 0},
		"ttl":                  {"<ttl>30</ttl>", nil, 30 * time.Minute},
		"ttl of a week":        {"<ttl>10080</ttl>", nil, mostPause},
		"ttl beyond numbers":   {"<ttl>99999999999999999999999</ttl>", nil, mostPause},
		"ttl that is none":     {"<ttl>soon</ttl>", nil, 0},
		"negative ttl":         {"<ttl>-5</ttl>", nil, 0},
		"WordPress":            {"<sy:updatePeriod> hourly </sy:updatePeriod><sy:updateFrequency> 1 </sy:updateFrequency>", nil, time.Hour},
		"four times a day":     {"<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>", nil, 6 * time.Hour},
		"frequency alone":      {"<sy:updateFrequency>24</sy:updateFrequency>", nil, time.Hour},
		"period alone":         {"<sy:updatePeriod>hourly</sy:updatePeriod>", nil, time.Hour},
		"never":                {"<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>0</sy:updateFrequency>", nil, 0},
		"unknown period":       {"<sy:updatePeriod>always</sy:updatePeriod>", nil, 0},
		"yearly":               {"<sy:updatePeriod>yearly</sy:updatePeriod>", nil, mostPause},
		"the longest counts":   {"<ttl>5</ttl><sy:updatePeriod>hourly</sy:updatePeriod>", http.Header{"Cache-Control": {"max-age=60"}}, time.Hour},
		"max-age":              {"", http.Header{"Cache-Control": {"public, Max-Age=600"}}, 10 * time.Minute},
		"max-age in quotes":    {"", http.Header{"Cache-Control": {`max-age="600"`}}, 10 * time.Minute},
		"max-age and age":      {"", http.Header{"Cache-Control": {"max-age=600"}, "Age": {"500"}}, 100 * time.Second},
		"older than max-age":   {"", http.Header{"Cache-Control": {"max-age=600"}, "Age": {"700"}}, 0},
		"max-age of a year":    {"", http.Header{"Cache-Control": {"max-age=31536000, immutable"}}, mostPause},
		"no-cache":             {"", http.Header{"Cache-Control": {"max-age=600", "no-cache"}}, 0},
		"shared caches' age":   {"", http.Header{"Cache-Control": {"s-maxage=600"}}, 0},
		"Expires":              {"", http.Header{"Date": {"Sun, 06 Nov 1994 08:00:00 GMT"}, "Expires": {"Sun, 06 Nov 1994 08:20:00 GMT"}}, 20 * time.Minute},
		"Expires in the past":  {"", http.Header{"Date": {"Sun, 06 Nov 1994 08:00:00 GMT"}, "Expires": {"Sat, 05 Nov 1994 08:20:00 GMT"}}, 0},
		"Expires that is none": {"", http.Header{"Expires": {"0"}}, 0},
		"max-age over Expires": {"", http.Header{"Cache-Control": {"max-age=60"}, "Date": {"Sun, 06 Nov 1994 08:00:00 GMT"}, "Expires": {"Sun, 06 Nov 1994 08:20:00 GMT"}}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.more, s.body = test.header, `<rss version="2.0"`+syndication+`><channel>`+test.channel+`<item><guid>a</guid></item></channel></rss>`
			if got, _ := paced(t, s, nil, "", 10); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if got, _ := paced(t, s, nil, "account", 10); got != 0 {
				t.Errorf("at the account's pace: got %v", got)
			}
		})
	}
}

// A feed that is not modified sends no document, and asks for the same pause.
func TestAnUnmodifiedFeedKeepsThePace(t *testing.T) {
	s := newSite(t)
	s.etag, s.body = `"1"`, `<rss version="2.0"><channel><ttl>30</ttl><item><guid>a</guid></item><item><guid>b</guid></item></channel></rss>`
	got, cursor := paced(t, s, nil, "", 1)
	if got != 0 {
		t.Errorf("before all is read: got %v", got)
	}
	if got, cursor = paced(t, s, cursor, "", 1); got != 30*time.Minute {
		t.Errorf("got %v", got)
	}
	if got, _ := paced(t, s, cursor, "", 1); got != 30*time.Minute || s.seen.Get("If-None-Match") == "" {
		t.Errorf("unmodified: got %v", got)
	}
}
