package wire

import (
	_ "embed"
	"fmt"
)

//go:embed timeline.lua
var timelineLua string

// Timeline is the keys of the two streams that have the timeline of a shard's accounts.
type Timeline struct {
	Mattered string // what seldom happens to an account
	Routine  string // what may happen to it all the time
}

// Keys returns both, in the order that scripts take them.
func (t Timeline) Keys() []string { return []string{t.Mattered, t.Routine} }

// MaxTimelineText is the most bytes of a line's text.
const MaxTimelineText = 240

// Kept returns how many lines each stream of a shard keeps, as scripts take it, if a
// namespace keeps so many in all. Three of four are of what mattered. It is empty if there
// is to be no timeline.
func Kept(lines, shards int) string {
	if lines <= 0 {
		return ""
	}
	each := func(n int) int { return max(1, (n+shards-1)/shards) }
	return fmt.Sprintf("%d %d", each(lines-lines/4), each(lines/4))
}

// Tell returns the command that writes a line about an account to what mattered, for steps
// that are no scripts. Kept is not empty.
func (t Timeline) Tell(kept, id, event, text string) Command {
	var most, least int
	if _, err := fmt.Sscanf(kept, "%d %d", &most, &least); err != nil {
		most = 1
	}
	return Command{"XADD", t.Mattered, "MAXLEN", "~", most, "*", "account", id, "event", event, "n", 0, "text", text}
}

// NewTellingScript is NewScript for a step that may write lines of a timeline.
func NewTellingScript(name string, texts ...string) *Script {
	return newScript(name, timelineParts, texts)
}
