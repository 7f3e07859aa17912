package message

import (
	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// DeadChoice selects dead letters: by their ids, or all of a group.
type DeadChoice struct {
	IDs    []string `strict:"ids"`
	Group  string   `strict:"group"`
	Cursor string   `strict:"cursor"` // with a group: the previous call's Next; empty: begin
}

// DecodeDeadChoice reads a choice strictly:
//
//	{"ids": ["12:1767225600000-0"]} or {"group": "crm"}
//
// It returns every fault at once, as Faults.
func DecodeDeadChoice(text []byte) (DeadChoice, error) {
	c, faults := deadChoiceDecoder.Decode(text)
	if len(faults) == 0 {
		faults = c.faults()
	}
	return c, faults.Err()
}

var deadChoiceDecoder = strict.NewDecoder[DeadChoice]("this choice")

func (c DeadChoice) faults() strict.Faults {
	var faults strict.Faults
	switch {
	case c.Group != "" && len(c.IDs) > 0:
		faults.Add("ids", "must not be given together with group")
	case c.Group != "":
		if err := circulate.ValidateGroup(c.Group); err != nil {
			faults.Add("group", err.Error())
		}
	case c.Cursor != "":
		faults.Add("cursor", "must be given together with group only")
	case len(c.IDs) == 0:
		faults.Add("ids", "must be given, or else group")
	}
	return faults
}
