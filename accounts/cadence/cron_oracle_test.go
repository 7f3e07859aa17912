package cadence_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rounds-dev/rounds/accounts/cadence"
)

// reading is what a zone's clock reads in one real minute.
type reading struct {
	at      int64   // the real minute, since 1970
	wall    int64   // what the clock reads, as if it were UTC, in minutes since 1970
	again   bool    // the clock has shown this before
	skipped []int64 // readings that the clock skipped just before this one
}

// readings goes through a year, and a few days on either side, minute by minute.
func readings(zone *time.Location, year int) []reading {
	first := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, -3)
	last := time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, 3)
	list := make([]reading, 0, (last.Unix()-first.Unix())/60)
	before := first.Unix()/60 - 2*24*60
	seen := make([]bool, (last.Unix()-first.Unix())/60+4*24*60) // indexed by reading, beginning two days before
	for t := first; t.Before(last); t = t.Add(time.Minute) {
		_, east := t.In(zone).Zone()
		r := reading{at: t.Unix() / 60, wall: (t.Unix() + int64(east)) / 60}
		r.again = seen[r.wall-before]
		seen[r.wall-before] = true
		if len(list) > 0 {
			for wall := list[len(list)-1].wall + 1; wall < r.wall; wall++ {
				if !seen[wall-before] {
					r.skipped = append(r.skipped, wall)
				}
				seen[wall-before] = true
			}
		}
		list = append(list, r)
	}
	return list
}

// fires is the oracle: the real minutes at which a schedule fires, by the two
// rules of the package's doc and nothing else.
func fires(schedule string, minutes []reading) []int64 {
	fields := strings.Fields(schedule)
	today, isDay := int64(-1), false
	var inHour, inDay [60]bool
	for n := range 60 {
		inHour[n], inDay[n] = inField(fields[0], n, 0, 59), inField(fields[1], n, 0, 23)
	}
	matches := func(wall int64) bool {
		if !inHour[wall%60] || !inDay[wall/60%24] {
			return false
		}
		if day := wall / (24 * 60); day != today {
			today, isDay = day, onDay(fields, time.Unix(day*24*3600, 0).UTC())
		}
		return isDay
	}
	var list []int64
	if strings.ContainsAny(fields[0]+fields[1], "*") {
		for _, m := range minutes {
			if matches(m.wall) {
				list = append(list, m.at)
			}
		}
		return list
	}
	for _, m := range minutes {
		if !m.again && matches(m.wall) || slices.ContainsFunc(m.skipped, matches) {
			list = append(list, m.at)
		}
	}
	return list
}

func onDay(fields []string, day time.Time) bool {
	inMonth := inField(fields[3], int(day.Month()), 1, 12)
	dom, dow := inField(fields[2], day.Day(), 1, 31), inField(fields[4], int(day.Weekday()), 0, 6) ||
		day.Weekday() == time.Sunday && inField(fields[4], 7, 0, 7)
	if fields[2] != "*" && fields[4] != "*" {
		return inMonth && (dom || dow)
	}
	return inMonth && dom && dow
}

// inField reads numbers, ranges, steps and lists.
func inField(field string, value, lowest, highest int) bool {
	for part := range strings.SplitSeq(field, ",") {
		bounds, every, _ := strings.Cut(part, "/")
		low, high, isRange := strings.Cut(bounds, "-")
		from, fromErr := strconv.Atoi(low)
		to, toErr := strconv.Atoi(high)
		step, stepErr := strconv.Atoi(every)
		switch {
		case fromErr != nil:
			from, to = lowest, highest // a star stands for all values
		case !isRange && stepErr == nil:
			to = highest
		case !isRange || toErr != nil:
			to = from
		}
		if stepErr != nil {
			step = 1
		}
		if value >= from && value <= to && (value-from)%step == 0 {
			return true
		}
	}
	return false
}

var oracleYears = map[string][]int{
	"UTC":                 {2026},
	"Asia/Shanghai":       {2026, 1988}, // clock changes in 1988 only
	"America/New_York":    {2026},
	"Europe/Berlin":       {2026},
	"Europe/Dublin":       {2026},       // winter time is the exception, summer time the standard
	"Africa/Casablanca":   {2026},       // one hour back for a month, then forward again
	"Australia/Lord_Howe": {2026},       // by half an hour
	"America/Santiago":    {2026},       // at midnight
	"America/St_Johns":    {2026, 2010}, // in 2010 at a minute past midnight
	"Pacific/Chatham":     {2026},       // 45 minutes off
	"Pacific/Apia":        {2011},       // 30 December does not exist
	"Asia/Pyongyang":      {2018},       // a permanent change, by half an hour
}

var oracleSchedules = []string{
	"0 9 * * 1-5", "30 2 * * *", "15,45 1,2 * * *", "0 0 * * *", "59 23 * * *", "0,30 0-3 * * 0,6,7", "0-59/20 0-23 * * *",
	"5 0 1 * *", "0 12 31 * 5", "15 2 29 2 *", "0 3 * 3,10,11 7", "10 1/6 */2 * *", "0 0 30 12 *",
	"*/30 * * * *", "0 * * * *", "15 */2 * * *", "*/10 2 * * *", "*/7 1-3 * * *", "* * * * *",
}

// The schedule agrees with an oracle that goes through each minute of a year.
func TestCronByOracle(t *testing.T) {
	for name, years := range oracleYears {
		for _, year := range years {
			t.Run(fmt.Sprintf("%s %d", name, year), func(t *testing.T) {
				t.Parallel()
				zone, err := time.LoadLocation(name)
				if err != nil {
					t.Fatal(err)
				}
				minutes := readings(zone, year)
				for _, schedule := range oracleSchedules {
					compare(t, mustParse(t, "cron "+schedule+" "+name), fires(schedule, minutes), minutes)
				}
			})
		}
	}
}

// compare goes through the whole year if the schedule is sparse, and otherwise through the
// days of clock changes and random days.
func compare(t *testing.T, c cadence.Cadence, want []int64, minutes []reading) {
	t.Helper()
	begin, end := minutes[2*24*60].at, minutes[len(minutes)-24*60].at
	next := func(now time.Time) int64 {
		due, ok := c.After("id", now, cadence.State{})
		if !ok || due.Unix()%60 != 0 || due.Nanosecond() != 0 {
			t.Fatalf("%v: after %v: %v, %v", c, now, due, ok)
		}
		return due.Unix() / 60
	}
	wanted := func(minute int64) (int64, bool) {
		i, _ := slices.BinarySearch(want, minute+1)
		if i == len(want) {
			return end + 1, false
		}
		return want[i], true
	}
	check := func(minute int64, fraction time.Duration) {
		t.Helper()
		now := time.Unix(minute*60, 0).Add(fraction)
		if due, known := wanted(minute); next(now) != due && (known || next(now) < end) {
			t.Fatalf("%v: after %v: %v, want %v", c, now.UTC(), time.Unix(next(now)*60, 0).UTC(), time.Unix(due*60, 0).UTC())
		}
	}
	if len(want) < 3_000 {
		for at := begin; ; {
			due, known := wanted(at)
			if !known || due >= end {
				break
			}
			check(at, 0)
			at = due
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(len(want))))
	for range 200 {
		check(begin+random.Int64N(end-begin), time.Duration(random.Int64N(int64(time.Minute))))
	}
	for i := 1; i < len(minutes); i++ {
		if minutes[i].wall == minutes[i-1].wall+1 || minutes[i].at < begin || minutes[i].at > end-24*60 {
			continue
		}
		for at := minutes[i].at - 3*60; at < minutes[i].at+3*60; at++ {
			check(at, 0)
			check(at, time.Minute-1)
		}
	}
}
