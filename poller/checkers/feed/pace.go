package feed

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mmcdole/gofeed"
	gofeedrss "github.com/mmcdole/gofeed/rss"
)

// mostPause is the longest pause that a feed can ask for.
const mostPause = 24 * time.Hour

// Whose pace an account keeps.
const (
	paceFeed    = "feed"    // its cadence, but not more often than the feed asks for
	paceAccount = "account" // its cadence alone
)

// pauseOf returns how long a feed asks that nobody fetches it again: the longest of what its answer
// and its document say.
func pauseOf(header http.Header, document time.Duration) time.Duration {
	return min(max(freshFor(header), document), mostPause)
}

// freshFor returns how long an answer stays fresh (RFC 9111, section 4.2). Zero: it does not say, or
// must be asked for each time.
func freshFor(header http.Header) time.Duration {
	age := secondsOf(header.Get("Age"))
	fresh, told := time.Duration(0), false
	for directive := range strings.SplitSeq(strings.Join(header["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			fresh, told = max(0, secondsOf(strings.Trim(value, `" `))-age), true
		}
	}
	if told { // before Expires, whatever that says
		return fresh
	}
	expires, err := http.ParseTime(header.Get("Expires"))
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		date = time.Now()
	}
	return max(0, expires.Sub(date)-age)
}

// secondsOf reads a number of seconds. What is none, or is negative, is zero.
func secondsOf(text string) time.Duration { return times(text, time.Second) }

// times reads a number of units, and returns at most mostPause. What is no number, or is negative, is zero.
func times(text string, unit time.Duration) time.Duration {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil && strings.Trim(text, "0123456789") != "" || text == "" {
		return 0
	}
	return time.Duration(min(n, uint64(mostPause/unit))) * unit // a number that is too large is the largest
}

// ttlOf returns the ttl of an RSS channel (RSS 2.0), which is in minutes.
func ttlOf(channel *gofeedrss.Feed) time.Duration { return times(channel.TTL, time.Minute) }

// periodOf reads sy:updatePeriod. What it does not know is zero.
func periodOf(text string) time.Duration {
	const day = 24 * time.Hour
	switch text {
	case "hourly":
		return time.Hour
	case "daily", "": // the default
		return day
	case "weekly":
		return 7 * day
	case "monthly":
		return 30 * day
	case "yearly":
		return 365 * day
	}
	return 0
}

// updatesOf returns the time between two updates by the elements updatePeriod and updateFrequency
// (RDF Site Summary 1.0 Modules: Syndication). Zero: the feed has neither, or they cannot be read.
func updatesOf(parsed *gofeed.Feed) time.Duration {
	module := parsed.Extensions["sy"]
	text := func(name string) string {
		if found := module[name]; len(found) > 0 {
			return strings.ToLower(strings.TrimSpace(found[0].Value))
		}
		return ""
	}
	period, frequency := text("updatePeriod"), text("updateFrequency")
	if period == "" && frequency == "" {
		return 0
	}
	often := uint64(1)
	if frequency != "" {
		read, err := strconv.ParseUint(frequency, 10, 31)
		if err != nil || read == 0 {
			return 0
		}
		often = read
	}
	return periodOf(period) / time.Duration(often)
}
