package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rounds-dev/rounds/accounts/budget"
	"github.com/rounds-dev/rounds/circulate/connect"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/poller"
	"github.com/rounds-dev/rounds/poller/delivery/webhook"
	"github.com/rounds-dev/rounds/poller/egress"
	"github.com/rounds-dev/rounds/poller/fetch"
)

// Validate validates settings as Run uses them: whether the kinds in limits are known,
// and what the files contain that settings name. The error is settings.Faults, for
// settings.Read to report with its own, unless the options themselves are wrong.
func Validate(s settings.Settings, o Options) error {
	o = o.withDefaults()
	reach := reachFaults(s.Poller)
	if len(reach) > 0 {
		s.Poller.Proxy, s.Poller.NoProxy, s.Poller.Egress, s.Poller.AllowNetworks, s.Poller.Contact = "", "", "", "", "" // the rest is then validated as well
	}
	checkers, err := NewCheckers(s.Poller, o)
	if err != nil {
		return err
	}
	faults := slices.Concat(redisFaults(s.Redis), reach, egressFaults(s, checkers), limitFaults(s, checkers), budgetFaults(s), keepingFaults(s, checkers), webhookFaults(s, o), callbackFaults(s, o), fileFaults(s, o), sealFaults(s.Seal), peopleFaults(s))
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// faultsAbout returns a fault of a setting for each line of an error, without a prefix.
func faultsAbout(name, prefix string, err error) (faults settings.Faults) {
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		faults = append(faults, settings.Fault{Name: name, Reason: strings.TrimPrefix(strings.TrimSpace(line), prefix)})
	}
	return faults
}

// reachFaults validates which ways calls may take, and where they may lead.
func reachFaults(s settings.Poller) settings.Faults {
	var proxy, contact error
	if s.Proxy != "" {
		proxy = fetch.ValidateProxy(s.Proxy)
	}
	if s.Contact != "" {
		contact = fetch.ValidateContact(s.Contact)
	}
	_, networks := fetch.ParseNetworks(s.AllowNetworks)
	_, ways := egress.Parse(s.Egress)
	return slices.Concat(faultsAbout("ROUNDS_EGRESS", "egress: ", ways), faultsAbout("ROUNDS_PROXY", "", proxy), faultsAbout("ROUNDS_NO_PROXY", "", fetch.ValidateNoProxy(s.NoProxy)), faultsAbout(allowNetworks, "", networks), faultsAbout("ROUNDS_CONTACT", "", contact))
}

// redisFaults reads the URL and the passwords of Redis to find their faults; openRedis
// and each connection read them for use.
func redisFaults(s settings.Redis) (faults settings.Faults) {
	if s.URL == "" {
		return nil
	}
	server, err := connect.Open(s.URL, connectOptions(s))
	if err != nil {
		return settings.Faults{{Name: "ROUNDS_REDIS_URL", Reason: strings.TrimPrefix(err.Error(), "redis URL: ") + hintOf(s.URL)}}
	}
	_ = server.Close() // it has not connected
	for _, file := range []struct{ name, path string }{
		{"ROUNDS_REDIS_PASSWORD_FILE", s.PasswordFile}, {"ROUNDS_REDIS_SENTINEL_PASSWORD_FILE", s.SentinelPasswordFile},
	} {
		if file.path != "" {
			_, err := connect.ReadPassword(file.path)
			faults = append(faults, faultsAbout(file.name, "", err)...)
		}
	}
	return faults
}

// egressFaults finds ways for kinds that there are not.
func egressFaults(s settings.Settings, checkers poller.Checkers) (faults settings.Faults) {
	ways, _ := egress.Parse(s.Poller.Egress) // reachFaults has its faults
	for _, kind := range ways.Kinds() {
		if _, ok := checkers[kind]; !ok {
			faults = append(faults, settings.Fault{Name: "ROUNDS_EGRESS", Reason: fmt.Sprintf("kind %q is not known; the kinds are %s", kind, strings.Join(checkers.Kinds(), ", "))})
		}
	}
	return faults
}

// limitsIn reads the limits, whose ways out must be there.
func limitsIn(s settings.Poller, checkers poller.Checkers) (poller.Limits, error) {
	limits, err := poller.ParseLimits(s.Limits, checkers.Kinds())
	ways, unread := egress.Parse(s.Egress)
	if err != nil || unread != nil { // reachFaults has the faults of the ways
		return limits, err
	}
	var faults []error
	for _, way := range limits.Ways() {
		if !ways.Has(way) {
			faults = append(faults, fmt.Errorf("egress/%.40s: ROUNDS_EGRESS has no way of that name", way))
		}
	}
	return limits, errors.Join(faults...)
}

// limitFaults reads the limits to find their faults; newPool reads them for use.
func limitFaults(s settings.Settings, checkers poller.Checkers) settings.Faults {
	_, err := limitsIn(s.Poller, checkers)
	return faultsAbout("ROUNDS_LIMITS", "limits: ", err)
}

// budgetFaults reads the budget to find its fault; budgetOf reads it for use.
func budgetFaults(s settings.Settings) settings.Faults {
	_, err := budget.Parse(s.Poller.AdaptiveBudget)
	return faultsAbout("ROUNDS_ADAPTIVE_BUDGET", "", err)
}

// webhookFaults reads the endpoints to find their faults; startDelivery reads them for
// use.
func webhookFaults(s settings.Settings, o Options) settings.Faults {
	endpoints, err := lookAtEndpoints(s, o, newSecrets(s.Poller, o).Service())
	if err == nil && s.API.Roles.Has(settings.RoleDelivery) {
		err = webhook.Misplaced(context.Background(), webhook.Of(endpoints), newSecrets(s.Poller, o).Service())
	}
	return faultsAbout(webhooksFile, "webhooks: ", err)
}

// sealFaults reads the keys of stored secrets to find their faults; seals.take reads them
// for use.
func sealFaults(s settings.Seal) (faults settings.Faults) {
	_, _, err := sealKeys(s)
	errors.As(err, &faults) // it returns nothing else
	return faults
}

// callbackFaults reads the callbacks to find their faults; newCallbacks reads them for
// use. A process without the API has no secrets of callbacks and needs none.
func callbackFaults(s settings.Settings, o Options) settings.Faults {
	if !s.API.Roles.Has(settings.RoleAPI) {
		return nil
	}
	_, err := readCallbacks(context.Background(), s.API.CallbacksFile, callbackSecrets(s.Poller, o))
	return faultsAbout(callbacksFile, "", err)
}
