package command

import (
	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/deployments/guide"
)

// newConnectorCommand makes the commands that help authors of connectors.
func newConnectorCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "connector",
		Short: "Help to write connectors, the programs behind the kind http",
		Example: `  rounds connector verify http://127.0.0.1:9000/ --secret CRM
  rounds connector schema`,
	}
	needsCommand(cmd)
	cmd.AddCommand(newConnectorVerifyCommand(env), newConnectorSchemaCommand(env))
	return cmd
}

func newConnectorSchemaCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a connector's requests and answers",
		Long: `Print the JSON Schema of a connector's requests and answers: #/$defs/request is the
body of a request, #/$defs/page and #/$defs/failure are the bodies of a 200.
The running service shows the same at /docs/guide/connector.schema.json.`,
		Example: `  rounds connector schema > connector.schema.json`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := env.stdout.Write(guide.ConnectorSchema())
			return err
		},
	}
}
