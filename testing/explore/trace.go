package main

import (
	"fmt"
	"strings"
)

// describe writes a trace, a line for each choice.
func (e *explorer) describe(trace []Action) string {
	return describe(e.config, e.nodes.scripts, trace)
}

func describe(c Config, s *scripts, trace []Action) string {
	var b strings.Builder
	for i := range trace {
		for a := &trace[i]; a != nil; a = a.Then {
			what := "ends its round"
			switch {
			case a.Fate == crashed:
				what = "crashes; another one begins"
			case a.Op != nil:
				what = shorten(s.describe(a.Op))
				if a.Fate != done {
					what += "   [" + a.Fate.String() + "]"
				}
			}
			fmt.Fprintf(&b, "%3d  %-10s %s\n", i+1, c.actorName(a.Actor), what)
		}
	}
	return b.String()
}

// actorName is the program's name, numbered if several actors run it.
func (c *Config) actorName(i int) string {
	if i >= len(c.Actors) {
		return c.Surroundings[i-len(c.Actors)].name
	}
	n := 1
	for _, p := range c.Actors[:i] {
		if p.name == c.Actors[i].name {
			n++
		}
	}
	return fmt.Sprintf("%s%d", c.Actors[i].name, n)
}

// shorten writes tickets as #N, and leaves out the time.
func shorten(text string) string {
	for {
		at := strings.Index(text, ticketMark)
		if at < 0 || at+14 > len(text) {
			break
		}
		text = text[:at] + "#" + strings.TrimLeft(text[at+5:at+13], "0") + text[at+13:]
	}
	now := fmt.Sprint(frozen().UnixMilli())
	return strings.ReplaceAll(strings.ReplaceAll(text, "|"+now, ""), now, "now")
}
