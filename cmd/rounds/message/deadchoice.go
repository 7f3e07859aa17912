package message

import (
	"maps"
	"slices"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/circulate"
)

// DeadChoice selects dead letters: those with the ids, or all of a group.
type DeadChoice struct {
	IDs    []string
	Group  string
	Cursor string // with a group: Next of the call before; empty: begin
}

// DecodeDeadChoice reads a choice strictly:
//
//	{"ids": ["12:1767225600000-0"]} or {"group": "crm"}
//
// It returns every fault at once, as Faults.
func DecodeDeadChoice(text []byte) (DeadChoice, error) {
	var c DeadChoice
	fields, err := strict.Object(text)
	if err != nil {
		return c, err
	}
	var faults strict.Faults
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "ids":
			faults.Texts(name, value, &c.IDs)
		case "group":
			faults.Text(name, value, &c.Group)
		case "cursor":
			faults.Text(name, value, &c.Cursor)
		default:
			faults.Add(name, "is not a field of this choice; its fields are ids, group and cursor")
		}
	}
	if len(faults) == 0 {
		faults = c.faults()
	}
	if len(faults) > 0 {
		return c, faults
	}
	return c, nil
}

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
