package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/doctor"
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
