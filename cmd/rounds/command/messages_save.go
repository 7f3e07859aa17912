package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// newSaveCommand makes the command that saves the files of a message.
func newSaveCommand(env environment) *cobra.Command {
	dir, wait := ".", time.Duration(0)
	cmd := &cobra.Command{
		Use:   "save MESSAGE [N…]",
		Short: "Save the files that a message carries",
		Long: `Save the files that a message carries, or those with the numbers N, into a directory.
MESSAGE is SHARD:POSITION, as the fields shard and position of a message have it. A file
gets the name that its sender gave it, and a number if there is one of that name already:
nothing is overwritten. Its bytes are verified.

A file that is fetched on demand is fetched now. --wait waits for files that are still
being fetched.`,
		Example: `  rounds messages save 12:1767225600000-0
  rounds messages save 12:1767225600000-0 0 2 --to /tmp/files --wait 1m`,
		Args: atLeast(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			m, err := calls.Message(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			chosen, err := chosenFiles(m.Files, args[1:])
			if err != nil {
				return err
			}
			if len(chosen) == 0 {
				fmt.Fprintln(env.stdout, env.says("the message carries no file"))
				return nil
			}
			var errs []error
			for _, f := range chosen {
				path, size, err := saveFile(cmd.Context(), calls, f, dir, wait)
				if err != nil {
					errs = append(errs, fmt.Errorf("file %d: %w", f.N, err))
					continue
				}
				fmt.Fprintln(env.stdout, env.says("%s has %d bytes", path, size))
			}
			return errors.Join(errs...)
		}),
	}
	cmd.Flags().StringVar(&dir, "to", dir, "the `directory` to save them in")
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long to wait for files that are still being fetched")
	return cmd
}

// chosenFiles returns the files with these numbers, or all.
func chosenFiles(all []api.File, numbers []string) ([]api.File, error) {
	if len(numbers) == 0 {
		return all, nil
	}
	var chosen []api.File
	for _, text := range numbers {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= len(all) {
			return nil, misuse(fmt.Sprintf("%q is not the number of a file: the message carries %d, from 0", text, len(all)))
		}
		chosen = append(chosen, all[n])
	}
	return chosen, nil
}

// saveFile saves a file under a temporary name, and then gives it its own.
func saveFile(ctx context.Context, calls *client.Client, f api.File, dir string, wait time.Duration) (path string, size int64, err error) {
	switch {
	case f.URL == "" && f.Reason != "":
		return "", 0, fmt.Errorf("it is lost: %s", f.Reason)
	case f.URL == "":
		return "", 0, errors.New("files of this kind are not fetched")
	}
	file, err := os.CreateTemp(dir, ".rounds-*")
	if err != nil {
		return "", 0, err
	}
	defer func() {
		_ = file.Close()
		_ = os.Remove(file.Name()) // it has its own name by now, or it is of no use
	}()
	deadline := time.Now().Add(wait)
	for {
		size, err = calls.File(ctx, f.URL, file)
		pending, ok := errors.AsType[*client.FilePendingError](err)
		if !ok {
			break
		}
		if time.Now().Add(pending.After).After(deadline) || !pause(ctx, pending.After) {
			return "", 0, err
		}
	}
	if err != nil {
		return "", 0, err
	}
	if err := file.Sync(); err != nil {
		return "", 0, err
	}
	for n := 0; ; n++ {
		path = filepath.Join(dir, fileName(f, n))
		reserved, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // a rename alone would replace another file
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", 0, err
		}
		return path, size, errors.Join(reserved.Close(), os.Rename(file.Name(), path))
	}
}

// fileName returns a name for a file that leads nowhere else, with a number unless it is 0.
func fileName(f api.File, number int) string {
	name := filepath.Base(filepath.Clean("/" + f.Name))
	if f.Name == "" || name == "." || name == string(filepath.Separator) {
		name = fmt.Sprintf("file-%d", f.N)
	}
	if number == 0 {
		return name
	}
	end := filepath.Ext(name)
	return fmt.Sprintf("%s (%d)%s", name[:len(name)-len(end)], number, end)
}
