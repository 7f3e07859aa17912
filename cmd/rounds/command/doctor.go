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
	"github.com/rounds-dev/rounds/cmd/rounds/doctor"
	"github.com/rounds-dev/rounds/cmd/rounds/listen"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
)

func newDoctorCommand(env environment) *cobra.Command {
	within, audit, jsonOutput := 10*time.Second, false, false
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at the whole installation, and say what to do",
		Long: `Look at the whole installation with the settings of this command, and say what to do.

Each line is ok, a warning, a fault, or skipped if something else must be repaired
first. The end says what to do, faults first. The exit code is 1 if there is a fault.

  settings      invalid ones, and variables that look misspelt
  api           it answers at ROUNDS_API_URL, and accepts the token or key
  data          without a Redis: ROUNDS_DATA_DIR can be written, and its disk has room
  redis         it is reached, new enough, quick, and does not lose what it acknowledges
  clock         Redis' clock and this machine's
  namespace     it is there, in a format that this program knows
  law           what the last audit found; --audit does one now
  replicas      some are alive, and agree; accounts; groups; dead letters
  files         the store can be written, and has the bytes of all kept files
  secrets       the ones that accounts use exist, and can be read
  way out       hosts of some accounts and webhooks are reached from here

It changes nothing and prints no secret. Each look takes --within at most, except the
audit. If Redis is inside a process of the service, it is asked through the API.`,
		Example: `  rounds doctor
  rounds doctor --audit
  rounds doctor --json | jq -r '.todo[]'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := env.examination(cmd)
			o.Within, o.Audit = within, audit
			calls := client.New(o.Settings.Access.URL, o.Settings.Access.Token)
			defer calls.Close()
			o.Calls = calls
			report := doctor.Examine(cmd.Context(), o)
			var err error
			if jsonOutput {
				err = printJSON(env.stdout, report)
			} else {
				err = report.Write(env.stdout, oneLine)
			}
			switch {
			case err != nil:
				return err
			case cmd.Context().Err() != nil:
				return cmd.Context().Err()
			case report.Faults == 1:
				return fmt.Errorf("1 fault")
			case report.Faults > 0:
				return fmt.Errorf("%d faults", report.Faults)
			}
			return nil
		},
	}
	settings.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&within, "within", within, "how long each look may take")
	cmd.Flags().BoolVar(&audit, "audit", false, "audit all accounts now, however long that takes")
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print it as JSON")
	return cmd
}

// examination returns what rounds doctor looks at: the settings as serve reads them, with
// their faults.
func (e environment) examination(cmd *cobra.Command) doctor.Options {
	s, lookup, err := readSettings(e, new(settings.Source), cmd.Flags(), settings.InProcess)
	if lookup != nil {
		e.lookup = lookup
	}
	return doctor.Options{Settings: s, Faulty: err, Unknown: settings.UnknownVariables(e.environ), Service: serviceOptions(e)}
}

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
