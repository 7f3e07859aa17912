package cadence

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	robfig "github.com/robfig/cron/v3"
)

// maxSpread is the longest time over which a cron cadence may spread accounts.
const maxSpread = 24 * time.Hour

// crontab is "cron": five fields, read in a zone.
type crontab struct {
	fields string // with one space between
	zone   *time.Location
	spread time.Duration

	spec *robfig.SpecSchedule // in UTC: walk.go handles the zone
	wild bool                 // * in minute or hour
}

var (
	fieldNames = [5]string{"minute", "hour", "day of month", "month", "day of week"}
	zoneName   = regexp.MustCompile(`^[0-9A-Za-z_+-]+(/[0-9A-Za-z_+-]+)*$`)
	fieldPart  = regexp.MustCompile(`^([*?]|[0-9A-Za-z]+(-[0-9A-Za-z]+)?)(/[0-9]+)?$`)

	parser = robfig.NewParser(robfig.Minute | robfig.Hour | robfig.Dom | robfig.Month | robfig.Dow)

	// leapYear begins a year that has every possible date.
	leapYear = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
)

func parseCrontab(rest string) (form, error) {
	if strings.HasPrefix(rest, "@") {
		return nil, fmt.Errorf(`%q is not supported: write five fields, as in "cron 0 9 * * MON-FRI", or "every 1h"`, rest)
	}
	words := strings.Fields(rest)
	if strings.Contains(rest, "TZ=") {
		return nil, errors.New(`the zone comes last, as its name alone, as in "cron 0 9 * * MON-FRI Asia/Shanghai"`)
	}
	c := &crontab{zone: time.UTC}
	if n := len(words); n > 0 && strings.HasPrefix(words[n-1], "~") {
		var err error
		if c.spread, err = parseSpread(words[n-1][1:]); err != nil {
			return nil, err
		}
		words = words[:n-1]
	}
	switch n := len(words); {
	case n < 5 || n > 6:
		return nil, fmt.Errorf(`cron needs five fields and may have a zone, as in "cron 0 9 * * MON-FRI Asia/Shanghai", not %d words`, n)
	case n == 6:
		var err error
		if c.zone, err = loadZone(words[5]); err != nil {
			if _, ok := parseFields(words[1:]); ok == nil {
				err = errors.New("cron has five fields here, from minute to day of week, and no seconds; these are six")
			}
			return nil, err
		}
		words = words[:5]
	}
	var err error
	if c.spec, err = parseFields(words); err != nil {
		return nil, err
	}
	c.fields = strings.Join(words, " ")
	c.wild = strings.ContainsAny(words[0]+words[1], "*?")
	if c.spec.Next(leapYear.Add(-1)).IsZero() {
		return nil, fmt.Errorf("%q never fires: no month has such a day", c.fields)
	}
	return c, nil
}

func parseSpread(text string) (time.Duration, error) {
	spread, err := parseDuration(text)
	if err == nil && (spread < MinInterval || spread > maxSpread || spread%time.Millisecond != 0) {
		err = fmt.Errorf("the time to spread over must be %v to %v, is %v", MinInterval, maxSpread, spread)
	}
	return spread, err
}

// parseFields reads five fields with robfig's parser. It checks the form of each field first:
// some texts make that parser panic.
func parseFields(fields []string) (*robfig.SpecSchedule, error) {
	read := make([]string, len(fields))
	for i, field := range fields {
		parts := strings.Split(field, ",")
		for j, part := range parts {
			if !fieldPart.MatchString(part) {
				return nil, fmt.Errorf("%s: %q is not a value, a range, a step or *", fieldNames[i], part)
			}
			if i == 4 {
				parts[j] = withoutSeven(part)
			}
		}
		read[i] = strings.Join(parts, ",")
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = read[i]
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", fieldNames[i], field, err)
		}
	}
	schedule, err := parser.Parse(strings.Join(read, " "))
	if err != nil {
		return nil, err
	}
	spec, ok := schedule.(*robfig.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("%q is not five fields", strings.Join(fields, " "))
	}
	spec.Location = time.UTC
	return spec, nil
}

// withoutSeven rewrites a part of the day of week that names Sunday as 7 or as the end of a
// range. Robfig's parser only accepts Sunday as 0 and as the beginning of a range.
func withoutSeven(part string) string {
	days, every, stepped := strings.Cut(part, "/")
	low, high, isRange := strings.Cut(days, "-")
	if !isRange {
		high = low
	}
	first, last := weekday(low), weekday(high)
	if isRange && first > 0 && last == 0 {
		last = 7
	}
	step := 1
	if stepped {
		step, _ = strconv.Atoi(every) // it has only digits; too many of them result in 0
	}
	if first < 0 || last != 7 || first > last || step < 1 {
		return part
	}
	var list []string
	for day := first; day <= last; day += min(step, 7) {
		list = append(list, strconv.Itoa(day%7))
	}
	return strings.Join(list, ",")
}

// weekday returns the number of a day, 0 to 7, or -1 for any other text.
func weekday(text string) int {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 && n <= 7 {
		return n
	}
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(text, day.String()[:3]) {
			return int(day)
		}
	}
	return -1
}

// zones caches loaded zones: a zone is a file, and many accounts use the same one.
var zones sync.Map // name → *time.Location

// loadZone returns a zone by its IANA name.
func loadZone(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	// These names are no IANA zones: the machine's own zone, and zones that count leap seconds.
	others := name == "Local" || name == "localtime" || strings.HasPrefix(name, "posix") || strings.HasPrefix(name, "right/")
	zone, err := time.LoadLocation(name)
	if err != nil || others || !zoneName.MatchString(name) {
		return nil, fmt.Errorf("%q is not a known zone: write an IANA name, such as Asia/Shanghai or UTC", name)
	}
	zones.Store(name, zone)
	return zone, nil
}
