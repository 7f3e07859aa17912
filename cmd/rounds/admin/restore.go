package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts/backup"
	"github.com/rounds-dev/rounds/circulate"
)

// Restoring says where a backup goes.
type Restoring struct {
	To        string // the Redis' URL; empty: that of the settings
	Namespace string // empty: that of the settings
	Shards    int    // 0: as many as the backup has
}

// NewRestore returns the command that restores a backup.
func NewRestore(env Env) *cobra.Command {
	var where Restoring
	dryRun := false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty namespace",
		Long: `Restore what "rounds backup" wrote into a namespace that has nothing in it, of any
number of shards, on any Redis. FILE may be compressed, and - is standard input.

All of the file is verified before anything is written: a file that was cut off or
altered, or that is none, is refused with the line. Start the service afterwards; until
the restore is complete, programs refuse to work with the namespace. If it is interrupted,
remove the namespace with "rounds namespace rm" and begin again.

--dry-run only verifies the file and says what is in it.`,
		Example: `  rounds restore rounds-2026-11-22.ndjson.zst --dry-run
  rounds restore rounds-2026-11-22.ndjson.zst --to redis://127.0.0.1:6379 --shards 256`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return restore(cmd, env, args[0], where, dryRun)
		},
	}
	flags := cmd.Flags()
	env.RedisFlags(flags)
	flags.StringVar(&where.To, "to", "", "`URL` of the Redis, in the form of ROUNDS_REDIS_URL, which it replaces")
	flags.StringVar(&where.Namespace, "namespace", "", "`NAMESPACE` into which it goes, in place of ROUNDS_NAMESPACE")
	flags.IntVar(&where.Shards, "shards", 0, "how many shards the namespace gets; 0: as many as the backup has")
	flags.BoolVar(&dryRun, "dry-run", false, "only verify the file")
	return cmd
}

func restore(cmd *cobra.Command, env Env, path string, where Restoring, dryRun bool) error {
	if where.Shards < 0 || where.Shards > circulate.MaxShards {
		return fmt.Errorf("--shards: must be 1 to %d, is %d", circulate.MaxShards, where.Shards)
	}
	file, end, err := reread(path, env.Stdin)
	if err != nil {
		return err
	}
	defer end()
	in, closeIn, err := unpacking(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	header, counts, err := backup.Verify(in)
	closeIn()
	if err != nil {
		return fmt.Errorf("%s: nothing was restored: %w", path, err)
	}
	fmt.Fprintf(env.Stdout, "%s: of namespace %s with %d shards, taken %s: %d accounts, %d messages, %d dead letters\n",
		path, oneLine(header.Namespace), header.Shards, clockTime(header.Time), counts.Accounts, counts.Messages, counts.Dead)
	if dryRun {
		return nil
	}
	if where.Shards == 0 {
		where.Shards = header.Shards
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	again, closeAgain, err := unpacking(file)
	if err != nil {
		return err
	}
	defer closeAgain()
	return env.Restore(cmd, where, func(ctx context.Context, ring *circulate.Ring) error {
		done, err := backup.Restore(ctx, ring, again, func(c backup.Counts) {
			if env.Terminal(env.Stderr) {
				fmt.Fprintf(env.Stderr, "\r%d of %d accounts, %d of %d messages", c.Accounts, counts.Accounts, c.Messages, counts.Messages)
			}
		})
		if env.Terminal(env.Stderr) {
			fmt.Fprintln(env.Stderr)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Stdout, "restored %d accounts, %d messages and %d dead letters into namespace %s\n", done.Accounts, done.Messages, done.Dead, oneLine(ring.Namespace()))
		return nil
	})
}

// reread returns a file that can be read twice. What comes from standard input is kept in a
// temporary file meanwhile.
func reread(path string, stdin io.Reader) (*os.File, func(), error) {
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		return file, func() { _ = file.Close() }, nil
	}
	file, err := os.CreateTemp("", "rounds-restore-*")
	if err != nil {
		return nil, nil, err
	}
	end := func() {
		_ = file.Close()
		_ = os.Remove(file.Name())
	}
	if _, err = io.Copy(file, stdin); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		end()
		return nil, nil, errors.Join(errors.New("standard input could not be kept"), err)
	}
	return file, end, nil
}
