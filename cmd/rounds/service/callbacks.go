package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/callback"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller/checkers/feed"
	"github.com/rounds-dev/rounds/poller/secrets"
	"github.com/rounds-dev/rounds/poller/websub"
)

const callbacksFile = "ROUNDS_CALLBACKS_FILE"

// readCallbacks reads the callbacks from their file, with their secrets. Without a file
// there are none. The error has every fault, each with its field.
func readCallbacks(ctx context.Context, path string, source secrets.Source) ([]*callback.Address, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it is only read
	configs, err := callback.Read(file)
	if err != nil {
		return nil, err
	}
	all := make([]*callback.Address, len(configs))
	use := secrets.Use{Kind: secrets.KindCallback, Stays: true}
	var faults accounts.Faults
	for i, config := range configs {
		field := func(name string) string { return fmt.Sprintf("callbacks[%d].%s", i, name) }
		token, tokenErr := source.Get(ctx, config.Token, use)
		if tokenErr != nil {
			faults = append(faults, accounts.Fault{Field: field("token"), Reason: tokenErr.Error()})
		}
		key, keyErr := source.Get(ctx, config.AESKey, use)
		if keyErr != nil {
			faults = append(faults, accounts.Fault{Field: field("aes_key"), Reason: keyErr.Error()})
		}
		if tokenErr != nil || keyErr != nil {
			continue
		}
		var wrong accounts.Faults
		if all[i], err = callback.NewAddress(config, token, key); errors.As(err, &wrong) {
			for _, f := range wrong {
				faults = append(faults, accounts.Fault{Field: field(f.Field), Reason: "the secret " + f.Reason})
			}
		} else if err != nil {
			return nil, err
		}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return all, nil
}

// callbackSecrets returns where callbacks find their secrets. None is stored in Redis,
// because the API's process has no key that opens it.
func callbackSecrets(s settings.Poller, o Options) secrets.Source {
	o.seals = nil
	return newSecrets(s, o).Service()
}

// newCallbacks makes the configured callbacks and returns their names; nil if there are
// none.
func newCallbacks(s settings.Settings, o Options, ring *circulate.Ring, log *slog.Logger) (*callback.Receiver, string, error) {
	all, err := readCallbacks(context.Background(), s.API.CallbacksFile, callbackSecrets(s.Poller, o))
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", callbacksFile, err)
	}
	if len(all) == 0 {
		return nil, "", nil
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Name
	}
	receiver, err := callback.New(ring, all, log)
	return receiver, strings.Join(names, " "), err
}

// subscriptionIn returns the subscription in the cursor of an account of a kind, or nil.
func subscriptionIn(kind string, cursor []byte) *websub.Subscription {
	if kind != feed.Kind {
		return nil
	}
	return feed.Subscription(cursor)
}
