package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newExportCommand(env environment) *cobra.Command {
	var chosen selectorFlags
	cmd := &cobra.Command{
		Use:   "export [FILE]",
		Short: "Write the records of accounts, one a line",
		Long: `Write the record of every account, or of those that the flags select, one a line,
as "account import" takes them: to a file, or to standard output where there is
none or it is -. A file is there only once it is complete.`,
		Example: `  rounds account export accounts.ndjson
  rounds account export --kind feed --label team=news feeds.ndjson
  rounds account export | wc -l`,
		Args: cobra.MaximumNArgs(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			selector, err := chosen.read()
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				_, err := calls.Export(cmd.Context(), selector, env.stdout)
				return exportError(err)
			}
			lines := 0
			err = writeWhole(args[0], func(w io.Writer) error {
				bar := newProgress(env, "lines written")
				defer bar.done()
				var err error
				lines, err = calls.Export(cmd.Context(), selector, io.MultiWriter(w, bar))
				return err
			})
			if err != nil {
				return exportError(err)
			}
			fmt.Fprintf(env.stdout, "%d accounts written to %s\n", lines, args[0])
			return nil
		}),
	}
	chosen.declare(env, cmd)
	return cmd
}

func exportError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("export: %w", err)
}

// writeWhole writes a file beside its place and moves it there once it is
// complete. What is there and is no file, such as /dev/null, is written to as it
// is.
func writeWhole(path string, write func(io.Writer) error) (err error) {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	if target, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = target
	}
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
