package settings

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/rounds-dev/rounds/poller/egress"
)

// comparedLength is how many bytes of a value are shown.
const comparedLength = 60

// Compared returns, by name, the settings that all processes of the same roles should have in
// common. It leaves out secrets, and settings of a single process or machine. A long value is cut,
// with a digest of the whole.
func (s Settings) Compared() map[string]string {
	compared := make(map[string]string)
	value := reflect.ValueOf(s)
	for _, one := range all() {
		if !slices.ContainsFunc(one.comparedFor(), s.API.Roles.Has) {
			continue
		}
		text := fmt.Sprint(value.FieldByIndex(one.index).Interface())
		switch {
		case one.Name == "ROUNDS_PROXY":
			compared[one.Name] = shortened(withoutUser(text))
		case one.Name == "ROUNDS_EGRESS":
			ways, _ := egress.Parse(text) // the service has validated it
			compared[one.Name] = shortened(ways.String())
		case one.Secret == "" || one.Name == "ROUNDS_FILES": // keys in the latter are a fault
			compared[one.Name] = shortened(text)
		}
	}
	return compared
}

// comparedFor returns the roles whose processes should agree on the setting.
func (s setting) comparedFor() []string {
	switch s.Name {
	case "ROUNDS_ROLES", "ROUNDS_API_ADDR", "ROUNDS_OPS_ADDR", "ROUNDS_API_SOCKET_MODE", "ROUNDS_OIDC_CLIENT_SECRET_FILE":
		return nil
	case "ROUNDS_SECRETS_PUBLIC_KEY":
		return []string{RoleAPI} // all seal for one key
	case "ROUNDS_ALLOW_NETWORKS", "ROUNDS_ALLOW_PRIVATE_ADDRESSES", "ROUNDS_PROXY", "ROUNDS_NO_PROXY", "ROUNDS_EGRESS", "ROUNDS_SECRETS_UNBOUND", "ROUNDS_SECRETS_PLAIN_HOSTS":
		// All that judge a record or call out need it: the API judges what pollers will reach.
		return []string{RoleAPI, RolePoller, RoleDelivery}
	case "ROUNDS_FILES":
		// The role delivery stores, the API reads, and a monitor removes.
		return []string{RoleAPI, RoleMonitor, RoleDelivery}
	case "ROUNDS_HEARTBEAT_INTERVAL", "ROUNDS_LONG_TIMEOUT", "ROUNDS_DEAD_AFTER", "ROUNDS_MEMORY_MARK":
		// Every process sends heartbeats, and monitors and the API must know what pollers do.
		return []string{RoleAPI, RolePoller, RoleMonitor, RoleDelivery}
	}
	switch reflect.TypeFor[Settings]().Field(s.index[0]).Name {
	case "API", "OIDC":
		return []string{RoleAPI}
	case "Poller":
		return []string{RolePoller}
	case "Monitor":
		return []string{RoleMonitor}
	case "Delivery":
		return []string{RoleDelivery}
	case "Keeping":
		return []string{RoleAPI, RoleDelivery} // the API tells which files are fetched, and fetches some
	}
	return nil
}

// withoutUser returns a URL without its user and password.
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "unreadable"
	}
	u.User = nil
	return u.String()
}

func shortened(value string) string {
	if value == "" {
		return "unset"
	}
	if len(value) <= comparedLength {
		return value
	}
	cut := comparedLength
	for !utf8.RuneStart(value[cut]) {
		cut--
	}
	sum := sha256.Sum256([]byte(value))
	return value[:cut] + "… (sha256 " + hex.EncodeToString(sum[:4]) + ")"
}
