package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/listen"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

// healthTimeout is less than the usual time-out of container health checks.
const healthTimeout = 4 * time.Second

func newHealthCommand(env environment) *cobra.Command {
	target := ""
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask the process on this machine whether it is ready",
		Long: `Ask the process on this machine whether it is ready, for the health checks of
containers: exit code 0 means yes. It asks at ROUNDS_API_URL if that is set, and
otherwise where the process listens according to its settings: at ROUNDS_OPS_ADDR,
or at ROUNDS_API_ADDR if that is not set.`,
		Example: `  rounds health
  rounds health --url http://127.0.0.1:8081
  rounds health --url unix:///run/rounds/api.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url := strings.TrimRight(target, "/")
			if url == "" {
				var err error
				if url, err = healthTarget(env, cmd.Flags()); err != nil {
					return err
				}
			}
			return ready(cmd.Context(), url)
		},
	}
	cmd.Flags().StringVar(&target, "url", "", "ask this URL instead; give it without /readyz")
	return cmd
}

// healthTarget returns where to ask, according to the settings. If they name the API's
// URL, the other settings need not be valid.
func healthTarget(env environment, flags *pflag.FlagSet) (string, error) {
	lookup, err := settings.Layer(env.lookup, flags)
	if err != nil {
		return "", err
	}
	if settings.Given(lookup, flags, "ROUNDS_API_URL") {
		access, err := settings.ReadAccess(lookup, flags)
		return access.URL, err
	}
	s, _, err := readSettings(env, new(settings.Source), flags)
	if err != nil {
		return "", err
	}
	return healthURL(s.API)
}

// healthURL returns where a process with these settings serves its health.
func healthURL(s settings.API) (string, error) {
	addr := s.OpsAddr // this address answers however busy the API is
	if addr == "" && s.Roles.Has(settings.RoleAPI) {
		addr = s.Addr
	}
	if addr == "" {
		return "", errors.New("no address serves health: set ROUNDS_OPS_ADDR, because ROUNDS_ROLES has no api")
	}
	at, err := listen.Parse(addr)
	if err != nil {
		return "", err
	}
	switch at.Network {
	case listen.Unix:
		return "unix://" + at.Name, nil
	case listen.Systemd:
		return "", fmt.Errorf("%s does not say where systemd listens: set ROUNDS_API_URL, or use --url", at)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a server on all addresses also listens here
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

func ready(ctx context.Context, at string) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	base, transport := client.Transport(at)
	transport.Proxy, transport.DisableKeepAlives = nil, true // one request to the same machine
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		reason, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("not ready: %s: %s", answer.Status, oneLine(strings.TrimSpace(string(reason))))
	}
	return nil
}
