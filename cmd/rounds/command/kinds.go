package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/strict"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newKindsCommand(env environment) *cobra.Command {
	jsonOutput := false
	cmd := &cobra.Command{
		Use:   "kinds [KIND]",
		Short: "List the kinds of accounts and the fields of their configs",
		Long: `List the kinds of accounts that the service knows, with the fields of their configs and
how many living pollers check them; or explain each field of one kind.`,
		Example: `  rounds kinds
  rounds kinds feed`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return completeKinds(env)(cmd, args, begun)
		},
		RunE: withClient(env, func(cmd *cobra.Command, names []string, calls *client.Client) error {
			list, err := calls.Kinds(cmd.Context())
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return newListing(env.stdout, jsonOutput, "KIND\tPOLLERS\tFIELDS", kindRow).print(list.Kinds)
			}
			i := slices.IndexFunc(list.Kinds, func(k api.Kind) bool { return k.Name == names[0] })
			if i < 0 {
				return noKind(list, names[0])
			}
			if jsonOutput {
				return printJSON(env.stdout, list.Kinds[i])
			}
			return printKind(env.stdout, list.Kinds[i])
		}),
	}
	cmd.Flags().BoolVar(&jsonOutput, "json", false, "print them as JSON, one a line")
	return cmd
}

// noKind says that there is no such kind, and lists the ones that there are.
func noKind(list api.KindList, name string) error {
	names := joined(list.Kinds, func(k api.Kind) string { return k.Name })
	return fmt.Errorf("there is no kind %q: the kinds are %s", name, names)
}

func kindRow(k api.Kind) string {
	fields := make([]string, len(k.Fields))
	for i, f := range k.Fields {
		fields[i] = f.Name
		if !f.Required {
			fields[i] = "[" + f.Name + "]"
		}
	}
	return fmt.Sprintf("%s\t%d\t%s", k.Name, k.Replicas, cmp.Or(strings.Join(fields, " "), "(JSON)"))
}

func printKind(w io.Writer, k api.Kind) error {
	if len(k.Fields) == 0 {
		_, err := fmt.Fprintf(w, "%s declares no fields: its config is JSON\n", oneLine(k.Name))
		return err
	}
	return printTable(w, "FIELD\tREQUIRED\tFOR EXAMPLE\tWHAT IT IS", k.Fields, func(f strict.Field) string {
		return fmt.Sprintf("%s\t%s\t%s\t%s", oneLine(f.Name), yesOrNo(f.Required), oneLine(exampleOf(f)), oneLine(f.Help.EN))
	})
}

// exampleOf returns a field's example in the form of --set.
func exampleOf(f strict.Field) string {
	if text, ok := f.Example.(string); ok {
		return text
	}
	text, err := json.Marshal(f.Example)
	if err != nil {
		return ""
	}
	return string(text)
}
