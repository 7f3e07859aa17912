package poller

import (
	"fmt"
	"testing"
	"time"
)

// play lets hosts answer (+) or not (-), a second apart. It returns the suspicion after each
// of them as a letter.
func play(o *outage, at *time.Time, events ...string) string {
	var down []byte
	for _, e := range events {
		*at = at.Add(time.Second)
		if e[0] == '+' {
			o.reached(e[1:], *at)
		} else {
			o.unreached(e[1:], *at)
		}
		if o.suspected() {
			down = append(down, 'd')
		} else {
			down = append(down, '.')
		}
	}
	return string(down)
}

func TestOutageIsSuspected(t *testing.T) {
	for name, tt := range map[string]struct {
		events []string
		want   string
	}{
		"three hosts, all checks":      {[]string{"-a", "-b", "-c"}, "..d"},
		"one host, however often":      {[]string{"-a", "-a", "-a", "-a", "-a"}, "....."},
		"two hosts":                    {[]string{"-a", "-b", "-a", "-b"}, "...."},
		"half of the checks":           {[]string{"+x", "+y", "+z", "-a", "-b", "-c"}, ".....d"},
		"less than half":               {[]string{"+w", "+x", "+y", "+z", "-a", "-b", "-c"}, "......."},
		"some come back, then enough":  {[]string{"-a", "-b", "-c", "+a", "+b"}, "..dd."},
		"a new host answers":           {[]string{"-a", "-b", "-c", "+x", "+y", "+z"}, "..ddd."},
		"a host answers and is gone":   {[]string{"-a", "-b", "-c", "+a", "-a", "+b", "+c"}, "..dddd."},
		"again after it was over":      {[]string{"-a", "-b", "-c", "+a", "+b", "-a", "-b", "-c"}, "..dd...d"},
		"those that fail before count": {[]string{"-a", "-b", "-c", "-d", "+a", "+b"}, "..ddd."},
	} {
		at := time.Date(2026, 8, 8, 10, 0, 0, 0, time.UTC)
		if got := play(newOutage(), &at, tt.events...); got != tt.want {
			t.Errorf("%s: %v: %s, want %s", name, tt.events, got, tt.want)
		}
	}
}

func TestOutageForgetsAfterAMinute(t *testing.T) {
	o, at := newOutage(), time.Date(2026, 8, 8, 10, 0, 0, 0, time.UTC)
	play(o, &at, "-a", "-b")
	at = at.Add(outageWindow)
	if got := play(o, &at, "-c", "-d", "-e"); got != "..d" {
		t.Errorf("%s, want ..d: what was a minute ago counts", got)
	}
	// Many checks that succeeded long ago do not outweigh failures either.
	o = newOutage()
	for range 100 {
		play(o, &at, "+x")
	}
	at = at.Add(outageWindow)
	if got := play(o, &at, "-a", "-b", "-c"); got != "..d" {
		t.Errorf("%s, want ..d", got)
	}
}

func TestOutageTriesEachHostNowAndThen(t *testing.T) {
	o, at := newOutage(), time.Date(2026, 8, 8, 10, 0, 0, 0, time.UTC)
	for range 2 {
		if !o.admits("a", at) {
			t.Error("a check is held up without an outage")
		}
	}
	play(o, &at, "-a", "-b", "-c")
	at = at.Add(outageFirst)
	if !o.admits("a", at) || o.admits("a", at.Add(outageFirst-1)) || !o.admits("a", at.Add(outageFirst)) {
		t.Error("a host is to be tried again soon")
	}
	at = at.Add(4 * outageProbe)
	if !o.admits("a", at) || o.admits("a", at) {
		t.Error("a host is to be tried once")
	}
	if !o.admits("new", at) || o.admits("new", at.Add(outageProbe-1)) {
		t.Error("a host that was not tried yet is to be tried once")
	}
	if !o.admits("a", at.Add(outageProbe)) {
		t.Error("a host is to be tried again after a while")
	}
	for i := range 2 * maxHosts {
		o.admits(fmt.Sprint("host ", i), at)
		o.unreached(fmt.Sprint("host ", i), at)
	}
	if len(o.hosts) > maxHosts {
		t.Errorf("%d hosts are kept", len(o.hosts))
	}
}

// A host that is down by itself counts toward the three hosts of a suspicion, and toward
// nothing else.
func TestHostsThatAreDownByThemselvesDecideNothing(t *testing.T) {
	o, at := newOutage(), time.Date(2026, 8, 8, 10, 0, 0, 0, time.UTC)
	dead := []string{"-dead", "-dead2", "-dead3", "-dead4"}
	for range 20 { // for longer than a minute, while another host is alive
		play(o, &at, append(dead, "+live")...)
	}
	if got := play(o, &at, append(dead, "-live", "-live", "+live", "-live")...); got != "........" {
		t.Errorf("%s: two checks that broke off at the only host alive are no outage", got)
	}
	if got := play(o, &at, "-live", "-live"); got != ".d" {
		t.Errorf("%s, want .d: it does not answer any more", got)
	}
	if got := play(o, &at, append(dead, "-new", "+live")...); got != "ddddd." {
		t.Errorf("%s, want ddddd.: the only one that had answered does again", got)
	}
	if got := play(o, &at, append(dead, "-new", "+live")...); got != "......" {
		t.Errorf("%s: it is over", got)
	}
}

// A host that answers has all its checks at once, even while the others do not answer.
func TestAHostThatAnswersHasAllItsChecks(t *testing.T) {
	o, at := newOutage(), time.Date(2026, 8, 8, 10, 0, 0, 0, time.UTC)
	if got := play(o, &at, "+a", "+b", "+c", "-a", "-b", "-c", "-a", "-b", "+a"); got != ".....dddd" {
		t.Fatal(got)
	}
	o.admits("b", at) // its try
	for range 3 {
		if !o.admits("a", at) || o.admits("b", at) {
			t.Fatal("a answers, and b does not")
		}
	}
	// This does not last for ever: after an hour the others count as down by themselves.
	for range 60 {
		at = at.Add(59 * time.Second)
		play(o, &at, "-b", "-c", "+a")
	}
	if o.suspected() {
		t.Error("it is still suspected")
	}
	if got := play(o, &at, "-b", "-c", "-d", "+a"); got != "...." {
		t.Errorf("%s: b and c have been down for an hour", got)
	}
}
