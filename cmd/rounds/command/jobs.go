package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newJobsCommand(env environment) *cobra.Command {
	return holding(&cobra.Command{
		Use:   "jobs",
		Short: "Look at changes of many accounts, stop them and take them back",
		Long: `Changes of many accounts that the service does in the background: those of the
dashboard, and of "rounds account pause --job" and the like. An ended job is listed for
a day, a stopped one for a week.`,
		Example: `  rounds jobs list
  rounds jobs stop ID
  rounds jobs undo ID`,
	},
		listingCommand(env, &cobra.Command{Use: "list", Short: "List jobs, the latest first", Example: "  rounds jobs list", Aliases: []string{"ls"}}, list[api.Job]{
			header: "ID\tACTION\tSTATE\tCHANGED\tUNCHANGED\tBY\tSINCE\tSELECTION", row: jobRow,
			page: whole((*client.Client).Jobs, func(l api.JobList) []api.Job { return l.Jobs }),
		}),
		newJobCommand(env, (*client.Client).Job, &cobra.Command{
			Use: "show ID", Short: "Show how far a job is, and why accounts were not changed", Example: "  rounds jobs show 3wq7xq5l2k4c",
		}),
		newJobCommand(env, (*client.Client).StopJob, &cobra.Command{
			Use: "stop ID", Short: "Stop a job after its current step", Example: "  rounds jobs stop 3wq7xq5l2k4c",
		}),
		newJobCommand(env, (*client.Client).ResumeJob, &cobra.Command{
			Use: "resume ID", Short: "Go on with a stopped job", Example: "  rounds jobs resume 3wq7xq5l2k4c",
		}),
		newJobCommand(env, (*client.Client).UndoJob, &cobra.Command{
			Use: "undo ID", Short: "Take a job back, within an hour of its end",
			Long: `Take back what a job paused, or set, by another job. It leaves out accounts that
somebody changed since. A job can be taken back for an hour after its end, if it
changed at most 100,000 accounts.`,
			Example: "  rounds jobs undo 3wq7xq5l2k4c",
		}),
	)
}

// newJobCommand adds to a command what is done with one job. The command prints the job.
func newJobCommand(env environment, do func(*client.Client, context.Context, string) (api.Job, error), cmd *cobra.Command) *cobra.Command {
	cmd.Args = exactly(1)
	jsonOutput := cmd.Flags().Bool("json", false, "print it as JSON")
	cmd.RunE = withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
		j, err := do(calls, cmd.Context(), args[0])
		if err != nil {
			return err
		}
		return printJob(env, &j, *jsonOutput)
	})
	return cmd
}

func printJob(env environment, j *api.Job, jsonOutput bool) error {
	if jsonOutput {
		return printJSON(env.stdout, j)
	}
	if _, err := fmt.Fprintf(env.stdout, "%s  %s  %s  changed=%d unchanged=%d matched=%d\n", oneLine(j.ID), oneLine(jobAction(j)), oneLine(string(j.State)), j.Changed, j.Unchanged, j.Matched); err != nil {
		return err
	}
	for _, r := range j.Reasons {
		if _, err := fmt.Fprintf(env.stdout, "  %s=%d  %s\n", oneLine(r.Reason), r.Count, oneLine(strings.Join(r.Examples, " "))); err != nil {
			return err
		}
	}
	return nil
}

func jobRow(j api.Job) string {
	return fmt.Sprintf("%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s", oneLine(j.ID), oneLine(jobAction(&j)), oneLine(string(j.State)), j.Changed, j.Unchanged, oneLine(j.By), clockTime(j.Created), oneLine(jobSelection(&j)))
}

func jobAction(j *api.Job) string {
	if j.Undoes != "" {
		return "undo-" + string(j.Action)
	}
	return string(j.Action)
}

func jobSelection(j *api.Job) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(j.Select)) {
		for _, value := range j.Select[name] {
			pairs = append(pairs, name+"="+value)
		}
	}
	if len(pairs) == 0 {
		return "all"
	}
	return strings.Join(pairs, " ")
}
