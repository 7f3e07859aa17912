package accounts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/circulate/connect"
)

// feeds knows one kind of account. A real service passes poller.Checkers as Kinds.
type feeds struct{}

func (feeds) Validate(kind string, config json.RawMessage) error {
	var c struct{ URL string }
	switch {
	case kind != "feed":
		return accounts.Fault{Field: "kind", Reason: "is not known"}
	case json.Unmarshal(config, &c) != nil || c.URL == "":
		return accounts.Fault{Field: "config.url", Reason: "missing"}
	}
	return nil
}

// Accounts are registered, paused and listed. A record that is not valid is refused with
// all its faults.
func ExampleRegistry() {
	ctx := context.Background()
	server := connect.NewEmbedded() // connect.Open("redis://…") in a real program
	defer server.Close()
	ring, err := circulate.Open(ctx, server, circulate.Options{Shards: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := accounts.NewRegistry(ring, feeds{})

	_, err = registry.Create(ctx, accounts.Account{ID: "bad", Kind: "feed", Cadence: "often"})
	var faults accounts.Faults
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Println("refused:", f.Field)
		}
	}
	for _, id := range []string{"news", "weather"} {
		account := accounts.Account{ID: id, Kind: "feed", Config: []byte(`{"url": "https://example.com/` + id + `"}`), Cadence: "every 5m"}
		if _, err := registry.Create(ctx, account); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := registry.Pause(ctx, "weather"); err != nil {
		fmt.Println(err)
	}
	for _, state := range []string{accounts.StateActive, accounts.StatePaused} {
		page, err := registry.List(ctx, accounts.Query{Selector: accounts.Selector{States: []string{state}}})
		if err != nil {
			fmt.Println(err)
		}
		for _, v := range page.Views {
			fmt.Println(v.ID, "is", state)
		}
	}
	// Output:
	// refused: cadence
	// refused: config.url
	// news is active
	// weather is paused
}
