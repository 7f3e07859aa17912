package strict_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/rounds-dev/rounds/accounts/strict"
)

// loft is the config of a kind of one's own: {"name": "north", "feeder": "daily"}.
type loft struct{ name, feeder string }

// A form declares the fields of a kind's configs and reads them. A checker that embeds it has
// Validate and Fields.
func ExampleNewForm() {
	form := strict.NewForm([]strict.Entry[loft]{
		{
			Field: strict.Field{
				Name: "name", Type: strict.TextType, Required: true, Example: "north",
				Label: strict.Words{EN: "Loft", ZH: "鸽舍"},
				Help:  strict.Words{EN: "The loft that the pigeons return to.", ZH: "鸽子返回的鸽舍。"},
			},
			Read: func(v strict.Value, to *loft) { to.name = v.Text() },
		},
		{
			Field: strict.Field{
				Name: "feeder", Type: strict.Choice, Example: "weekly", Default: "daily",
				Label:   strict.Words{EN: "Feeder", ZH: "喂食"},
				Help:    strict.Words{EN: "When the feeder is filled.", ZH: "何时添食。"},
				Choices: []strict.Option{{Value: "daily"}, {Value: "weekly"}},
			},
			Read: func(v strict.Value, to *loft) {
				to.feeder = v.Matching(func(when string) bool { return when == "daily" || when == "weekly" }, "must be daily or weekly")
			},
		},
	})

	config, err := form.Read(json.RawMessage(`{"name": "north"}`))
	fmt.Println(config, err)
	fmt.Println(form.Validate(json.RawMessage(`{"feeder": "hourly", "nmae": "north"}`)))
	// Output:
	// {north daily} <nil>
	// config.name: missing
	// config.feeder: must be daily or weekly
	// config.nmae: unknown field; the fields are name and feeder
}

// The body of a request is read into a struct. All faults come at once.
func ExampleDecoder() {
	type release struct {
		Pigeons []string      `strict:"pigeons"`
		Within  time.Duration `strict:"within"`
	}
	decoder := strict.NewDecoder[release]("a release")

	read, faults := decoder.Decode([]byte(`{"pigeons": ["Anna", "Ben"], "within": "10m"}`))
	fmt.Println(read, faults.Err())
	_, faults = decoder.Decode([]byte(`{"pigeons": "Anna", "within": 10, "loft": "north"}`))
	fmt.Println(faults)
	// Output:
	// {[Anna Ben] 10m0s} <nil>
	// loft: is not a field of a release; its fields are pigeons and within
	// pigeons: must be an array of strings
	// within: must be a duration, such as "10s" or "5m"
}
