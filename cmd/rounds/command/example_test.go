package command_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/command"
	"github.com/rounds-dev/rounds/poller"
)

// pigeons is a kind of one's own. Its config is {"loft": "north"}.
type pigeons struct{}

func newPigeons(command.Tools) (poller.Checker, error) { return pigeons{}, nil }

func (pigeons) Kind() string { return "pigeon" }

func (pigeons) Validate(config json.RawMessage) error {
	r := strict.ReadConfig(config)
	r.Text("loft")
	return r.Err()
}

func (pigeons) RateKey(json.RawMessage) string { return "" }

func (pigeons) Check(context.Context, poller.Request) (poller.Result, error) {
	return poller.Result{Messages: []poller.Message{{ID: "1", Type: "letter", Data: []byte(`{"text":"coo"}`)}}}, nil
}

// A main function that needs more than Main does. In this example the program only validates
// the config of a pigeon account, as its command line asks.
func ExampleRun() {
	err := command.Run(context.Background(), []string{"check", "--kind", "pigeon", "--set", "perch=3"}, newPigeons)
	fmt.Println(err)
	// Output:
	// config.loft: missing
	// config.perch: unknown field
}
