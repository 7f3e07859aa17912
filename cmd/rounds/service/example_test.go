package service_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
)

// pigeons is a kind of your own.
type pigeons struct{}

func (pigeons) Kind() string                   { return "pigeon" }
func (pigeons) Validate(json.RawMessage) error { return nil }
func (pigeons) RateKey(json.RawMessage) string { return "" }

func (pigeons) Check(context.Context, poller.Request) (poller.Result, error) {
	return poller.Result{}, nil
}

func newPigeons(service.Tools) (poller.Checker, error) { return pigeons{}, nil }

// A program of your own runs the whole service with a kind of its own: API, poller and
// monitor. Redis runs within the process, because no setting names one. Use package command
// if the program also needs the command line.
func ExampleRun() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	variables := map[string]string{"ROUNDS_API_ADDR": "127.0.0.1:0", "ROUNDS_LIMITS": "pigeon rate=2/s"}
	lookup := func(name string) (string, bool) { value, ok := variables[name]; return value, ok } // os.LookupEnv in a real program
	options := service.Options{
		Lookup: lookup,
		Kinds:  []service.Kind{newPigeons},
		Serving: func(string) {
			fmt.Println("it serves")
			cancel() // a real service keeps running
		},
	}
	s, err := settings.Read(lookup, nil, func(s settings.Settings) error { return service.Validate(s, options) })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(service.Run(ctx, s, options))
	// Output:
	// it serves
	// <nil>
}
