package secrets_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rounds-dev/rounds/poller/secrets"
)

// A config names a secret, and the poller finds its value at each use. A binding says where the
// value may go.
func ExampleSource_Get() {
	environment := map[string]string{
		"ROUNDS_SECRET_CRM":  "s3cret",
		"ROUNDS_BINDING_CRM": "hosts=crm.example.com",
	}
	source := secrets.Source{Lookup: func(name string) (string, bool) {
		value, ok := environment[name]
		return value, ok
	}}

	ref, err := secrets.ParseRef(json.RawMessage(`{"secret": "CRM"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, url := range []string{"https://crm.example.com/hook", "https://elsewhere.example/hook"} {
		value, err := source.Get(context.Background(), ref.Name, secrets.ForURL("http", url))
		fmt.Printf("%s: %q, refused: %v\n", url, value, errors.Is(err, secrets.ErrRefused))
	}

	_, err = secrets.ParseRef(json.RawMessage(`"s3cret"`))
	fmt.Println(errors.Is(err, secrets.ErrNotReference))
	// Output:
	// https://crm.example.com/hook: "s3cret", refused: false
	// https://elsewhere.example/hook: "", refused: true
	// true
}
