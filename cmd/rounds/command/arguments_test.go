package command

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/trial"
)

// A command that lacks an argument names it, and one that has too many names the first of them.
func TestArgumentsAreNamed(t *testing.T) {
	for line, want := range map[string]string{
		"connector verify":  "URL is missing: rounds connector verify URL",
		"account why":       "ID is missing: rounds account why ID",
		"reshard 16":        `"16" is one argument too many: rounds reshard --to 16`,
		"account why a b c": `"b" is one argument too many: rounds account why ID`,
	} {
		_, err := runWith(t.Context(), nil, "", strings.Fields(line)...)
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Args != nil && cmd.Args(cmd, nil) != nil && !strings.Contains(cmd.Args(cmd, nil).Error(), " is missing: "+cmd.CommandPath()+" ") {
			t.Errorf("%s: %v", cmd.CommandPath(), cmd.Args(cmd, nil))
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot(testEnvironment(nil)))
}

func TestOneIsNoPlural(t *testing.T) {
	var out strings.Builder
	run := &checkRun{Pages: []trial.FoundPage{{Messages: []trial.FoundMessage{{ID: "1"}}}}}
	if err := run.print(&out, false); err != nil || !strings.Contains(out.String(), "   1 message in ") {
		t.Errorf("%v, %s", err, out.String())
	}
}
