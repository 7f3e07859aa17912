package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// restoring says where a backup goes.
type restoring struct {
	to        string // the URL of the Redis; empty: the settings' Redis
	namespace string // empty: the settings' namespace
	shards    int    // 0: as many as the backup has
}

// lookup finds settings as the given lookup does. If to is set, it replaces the Redis' URL.
// Settings that go with a URL, such as the file of its password, then go with that one.
func (r restoring) lookup(found settings.Lookup) settings.Lookup {
	return func(name string) (string, bool) {
		switch {
		case name == "ROUNDS_REDIS_URL" && r.to != "":
			return r.to, true
		case found == nil:
			return "", false
		default:
			return found(name)
		}
	}
}

// newRestoreCommand makes the command that restores a backup.
func newRestoreCommand(env environment) *cobra.Command {
	var where restoring
	dryRun, withoutKeys := false, false
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty namespace",
		Long: `Restore what "rounds backup" wrote, into an empty namespace of any number of shards,
on any Redis. FILE may be compressed, and - is standard input.

The whole file is verified before anything is written. A file that was cut off or
altered, or that is not a backup, is refused, with the wrong line. Start the service afterwards; until
the restore is complete, programs refuse to work with the namespace. If it is interrupted,
remove the namespace with "rounds namespace rm" and begin again.

Keys of the API work again as they did when the backup was taken, even keys that were
revoked since: look at "rounds key list", or leave keys out with --without-keys. Sealed
secrets are restored as they are. Sealed credentials are restored if ROUNDS_SECRETS_KEY
opens them; otherwise pollers fetch new ones.

--dry-run only verifies the file and lists its content.`,
		Example: `  rounds restore rounds-2026-11-22.ndjson.zst --dry-run
  rounds restore rounds-2026-11-22.ndjson.zst --to redis://127.0.0.1:6379 --shards 256`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return restore(cmd, env, args[0], where, dryRun, withoutKeys)
		},
	}
	flags := cmd.Flags()
	settings.AddRedisFlags(flags)
	flags.StringVar(&where.to, "to", "", "the `URL` of the Redis, in place of ROUNDS_REDIS_URL and in its form")
	flags.StringVar(&where.namespace, "namespace", "", "the `NAMESPACE` to restore into, in place of ROUNDS_NAMESPACE")
	flags.IntVar(&where.shards, "shards", 0, "how many shards the namespace gets; 0: as many as the backup has")
	flags.BoolVar(&withoutKeys, "without-keys", false, "leave out the keys of the API")
	flags.BoolVar(&dryRun, "dry-run", false, "only verify the file")
	return cmd
}

func restore(cmd *cobra.Command, env environment, path string, where restoring, dryRun, withoutKeys bool) error {
	if where.shards < 0 || where.shards > circulate.MaxShards {
		return fmt.Errorf("--shards: must be 1 to %d, is %d", circulate.MaxShards, where.shards)
	}
	name := path
	if path == "-" {
		name = "standard input"
	}
	g, began := newGauge(env), time.Now()
	defer g.end()
	file, end, err := reread(path, env.stdin)
	if err != nil {
		return err
	}
	defer end()
	in, closeIn, err := unpacking(file)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	g.begin("verifying")
	found, err := backup.Verify(in, func(c backup.Counts) { g.show(c, backup.Counts{}, 0) })
	closeIn()
	g.end()
	if err != nil {
		return fmt.Errorf("%s: nothing was restored: %w", name, err)
	}
	fmt.Fprintln(env.stdout, env.says("%s: of namespace %s with %d shards, taken %s: %s",
		name, oneLine(found.Header.Namespace), found.Header.Shards, clockTime(found.Header.Time), contents(found.Counts)))
	keys, err := privateKeys(env, cmd, where, &found)
	if err != nil {
		return err
	}
	for _, text := range sealed(&found, keys) {
		fmt.Fprintln(env.stdout, env.spoken(text))
	}
	if dryRun {
		return nil
	}
	if where.shards == 0 {
		where.shards = found.Header.Shards
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	again, closeAgain, err := unpacking(file)
	if err != nil {
		return err
	}
	defer closeAgain()
	return env.fill(cmd, where, func(ctx context.Context, ring *circulate.Ring) error {
		g.begin("restoring")
		done, err := backup.Restore(ctx, ring, again, backup.Restoring{
			Progress: func(c backup.Counts) { g.show(c, found.Counts, 0) }, Open: keys.OpenBox, WithoutKeys: withoutKeys,
		})
		g.end()
		if err != nil {
			return err
		}
		restored := done.Counts
		restored.Keys -= done.WithoutKeys
		restored.Credentials -= done.Unopened + done.Expired
		fmt.Fprintln(env.stdout, env.says("restored %s into namespace %s, in %s", contents(restored), oneLine(ring.Namespace()), took(time.Since(began))))
		if done.Expired > 0 {
			fmt.Fprintln(env.stdout, env.says("%s had expired: pollers fetch new ones", some(done.Expired, "credential")))
		}
		return nil
	})
}

// privateKeys returns the keys of ROUNDS_SECRETS_KEY if there is anything that they may open.
func privateKeys(env environment, cmd *cobra.Command, where restoring, found *backup.Contents) (secrets.Keys, error) {
	if len(found.SealedFor) == 0 {
		return nil, nil
	}
	lookup, faults := settings.Layer(env.lookup, cmd.Flags())
	_, seal, err := settings.ReadSeal(where.lookup(lookup), cmd.Flags())
	if err := errors.Join(faults, err); err != nil {
		return nil, err
	}
	keys, err := secrets.ParseKeys(seal.PrivateKeys)
	if err != nil {
		return nil, fmt.Errorf("ROUNDS_SECRETS_KEY: %w", err)
	}
	return keys, nil
}

// sealed says for people which keys the sealed parts of a backup need.
func sealed(found *backup.Contents, keys secrets.Keys) []string {
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(found.SealedFor)) {
		values := some(found.SealedFor[id], "sealed value")
		if keys.Has(id) {
			texts = append(texts, fmt.Sprintf("%s: for key %s, which ROUNDS_SECRETS_KEY has", values, oneLine(id)))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: for key %s, which ROUNDS_SECRETS_KEY does not have here. Secrets come back sealed, and pollers need that key. Credentials are left out, and fetched anew.", values, oneLine(id)))
	}
	return texts
}

// reread returns a file that can be read twice. It copies standard input to a temporary file.
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

// fill calls use with a new ring in the Redis and the namespace that flags and settings name,
// and notes the restore in the trail there.
func (e environment) fill(cmd *cobra.Command, where restoring, use func(context.Context, *circulate.Ring) error) error {
	lookup, faults := settings.Layer(e.lookup, cmd.Flags())
	s, err := settings.ReadRedis(where.lookup(lookup), cmd.Flags())
	if err := errors.Join(faults, err); err != nil {
		return err
	}
	if where.to != "" {
		s.URL = where.to
	}
	s.Namespace = cmp.Or(where.namespace, s.Namespace)
	if err := circulate.ValidateNamespace(s.Namespace); err != nil {
		return fmt.Errorf("namespace %q: %w", s.Namespace, err)
	}
	there, err := service.OpenNamespace(cmd.Context(), s, s.Namespace)
	if err != nil {
		return err
	}
	err = there.Fill(cmd.Context(), where.shards, use)
	if err == nil {
		err = there.AddToTrail(cmd.Context(), trail.Entry{Action: "restore", Outcome: trail.Done, Subject: "namespace " + s.Namespace})
	}
	return errors.Join(err, there.Close())
}
