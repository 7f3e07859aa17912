package cadence

import "time"

func (c *crontab) String() string {
	text := "cron " + c.fields
	if c.zone != time.UTC {
		text += " " + c.zone.String()
	}
	if c.spread > 0 {
		text += " ~" + brief(c.spread)
	}
	return text
}

func (c *crontab) rule() string { return RuleCron }

func (c *crontab) longest() time.Duration { return 0 }

func (c *crontab) current(State) time.Duration { return 0 }

func (c *crontab) after(id string, now time.Time, _ State) (time.Time, bool) {
	var late time.Duration
	if c.spread > 0 {
		late = time.Duration(hash(id)%uint64(c.spread.Milliseconds())) * time.Millisecond
	}
	return c.next(now.Add(-late)).Add(late), true
}

// next returns the first instant later than t at which the schedule fires.
//
// It goes from one change of the clock to the next. Between two changes the wall clock runs
// evenly. So next treats what the clock reads as UTC, in which robfig's schedule meets no
// clock changes.
func (c *crontab) next(t time.Time) time.Time {
	t = t.In(c.zone)
	start, end := t.ZoneBounds()
	reading := wall(t, offset(t)) // what the clock reads; everything up to it is done
	if covered, ok := c.covered(start); ok && covered.After(reading) {
		reading = covered
	}
	for {
		east := offset(t)
		due := c.nextWall(reading).Add(-east).In(c.zone)
		if due.Before(start) {
			due = start // the clock jumped over it
		}
		if end.IsZero() || due.Before(end) {
			return due
		}
		t = end
		start, end = t.ZoneBounds()
		reading = wall(start, offset(start)).Add(-1)
		if covered, ok := c.covered(start); ok {
			reading = covered
		}
	}
}

// covered returns what the clock read a moment before it was changed. Later readings still
// have to fire, even if the clock jumped over them, and earlier ones must not fire again. It
// returns false for a schedule with * in minute or hour, which fires as the clock reads.
func (c *crontab) covered(start time.Time) (time.Time, bool) {
	if c.wild || start.IsZero() {
		return time.Time{}, false
	}
	before := start.Add(-1)
	return wall(before, offset(before)), true
}

// wall returns what a clock that far east of UTC reads at t, as if that were UTC.
func wall(t time.Time, east time.Duration) time.Time { return t.UTC().Add(east) }

func offset(t time.Time) time.Duration {
	_, east := t.Zone()
	return time.Duration(east) * time.Second
}

// nextWall returns the first reading of the schedule later than a reading. Robfig's schedule
// looks five years ahead, and between 2096 and 2104 there is no 29 February.
func (c *crontab) nextWall(reading time.Time) time.Time {
	next := c.spec.Next(reading)
	if next.IsZero() {
		next = c.spec.Next(reading.AddDate(4, 0, 0))
	}
	return next
}
