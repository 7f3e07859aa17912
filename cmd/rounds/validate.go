package main

import (
	"errors"
	"strings"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/checkers/secrets"
	"github.com/rounds-dev/rounds/poller/checkers/wecomkf"
)

// validate judges settings by what the service makes of them. Its error is
// settings.Faults.
func validate(env environment) func(settings.Settings) error {
	return func(s settings.Settings) error {
		faults := append(limitFaults(env, s), webhookFaults(s)...)
		faults = append(faults, callbackFaults(env, s)...)
		if len(faults) == 0 {
			return nil
		}
		return faults
	}
}

// limitFaults reads the limits for their faults; newPool reads them for use.
func limitFaults(env environment, s settings.Settings) settings.Faults {
	checkers, err := newCheckers(env, s.Poller, wecomkf.NewMemory())
	if err == nil {
		_, err = poller.ParseLimits(s.Poller.Limits, checkers.Kinds())
	}
	var faults settings.Faults
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, fault := range joined.Unwrap() {
			faults = append(faults, settings.Fault{Name: "ROUNDS_LIMITS", Reason: strings.TrimPrefix(fault.Error(), "limits: ")})
		}
	}
	return faults
}

// webhookFaults reads the endpoints for their faults; startDelivery reads them for
// use.
func webhookFaults(s settings.Settings) settings.Faults {
	client := newWebhookClient(s.Poller)
	defer client.Close()
	_, err := readWebhooks(s.Delivery.WebhooksFile, client)
	found := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		found = joined.Unwrap()
	}
	var faults settings.Faults
	for _, fault := range found {
		if fault != nil {
			faults = append(faults, settings.Fault{Name: webhooksFile, Reason: strings.TrimPrefix(fault.Error(), "webhooks: ")})
		}
	}
	return faults
}

// callbackFaults reads the callbacks for their faults; addCallbacks reads them for
// use. A process without the API has no secrets of theirs, and need not.
func callbackFaults(env environment, s settings.Settings) settings.Faults {
	if !s.API.Roles.Has(settings.RoleAPI) {
		return nil
	}
	_, err := readCallbacks(s.API.CallbacksFile, secrets.Source{Dir: s.Poller.SecretsDir, Lookup: env.lookup})
	var found accounts.Faults
	if !errors.As(err, &found) {
		if err == nil {
			return nil
		}
		return settings.Faults{{Name: callbacksFile, Reason: err.Error()}}
	}
	faults := make(settings.Faults, len(found))
	for i, f := range found {
		faults[i] = settings.Fault{Name: callbacksFile, Reason: f.Error()}
	}
	return faults
}
