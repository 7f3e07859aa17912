package command

import (
	"fmt"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
)

// headroomOf returns how long an account has until its third party forgets messages.
func headroomOf(s api.Schedule) string {
	if s.Headroom == nil || s.Retention == nil {
		return ""
	}
	kept := ", of the " + seconds(*s.Retention) + " that the third party keeps messages"
	if *s.Headroom <= 0 {
		return "none since " + seconds(-*s.Headroom) + kept + ": some may be lost"
	}
	return seconds(*s.Headroom) + kept
}

// headroomIn returns a line about the accounts of a kind.
func headroomIn(h accounts.Headroom) string {
	text := fmt.Sprintf("%s: least %s (%s)", oneLine(h.Kind), seconds(h.Least), oneLine(h.Account))
	if h.Low == 0 {
		return text
	}
	return fmt.Sprintf("%s; %d with less than half left, %d with less than a quarter, %d with none; %d of them parked",
		text, h.Low, h.Critical, h.Past, h.Parked)
}
