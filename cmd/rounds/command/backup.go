package command

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/circulate"
	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/service"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/trail"
	"github.com/rounds-dev/rounds/poller/secrets"
)

// packed ends the names of compressed files.
const packed = ".zst"

// newBackupCommand makes the command that writes a backup.
func newBackupCommand(env environment) *cobra.Command {
	withSecrets, filesDir := false, ""
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write everything that the service keeps to a file",
		Long: `Write everything that the service stores to a file, while it runs: the accounts with their
cursors, due times and failures, the messages, how far the consumer groups have read, the
dead letters, the keys of the API (their digests) and which webhooks are disabled. The file
is compressed if its name ends in .zst, and - writes to standard output. The file appears
only once it is complete and verified.

A backup is taken in small steps, so it shows no single moment. Cursors are read before
messages: after "rounds restore" some messages are found again, under the same account
and message id, and none is missed.

Secrets and credentials are left out. --with-secrets includes them, sealed: only the
private key of ROUNDS_SECRETS_KEY opens them.

The list of files that messages carry is in the backup, and their bytes are not. --files DIR
copies the bytes into a directory, each once. It may be the same for all backups: only what
is new is copied.`,
		Example: `  rounds backup rounds-2026-11-22.ndjson.zst
  rounds backup rounds-2026-11-22.ndjson.zst --files rounds-files
  rounds backup --with-secrets rounds-2026-11-22.ndjson.zst
  rounds backup - | rounds restore - --to redis://127.0.0.1:6380`,
		Args: exactly(1),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			g := newGauge(env)
			began := time.Now()
			meter := &metered{gauge: g}
			fetch := func(w io.Writer) error {
				g.begin("backup")
				return calls.Backup(cmd.Context(), withSecrets, io.MultiWriter(w, meter))
			}
			if args[0] == "-" && filesDir != "" {
				return errors.New("--files: needs a FILE, because the backup is read again")
			}
			if args[0] == "-" {
				err := fetch(env.stdout)
				g.end()
				return err
			}
			found, size, err := writeBackup(args[0], fetch, g)
			g.end()
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, env.says("%s has %s: %s, taken in %s", args[0], contents(found.Counts), megabytes(size), took(time.Since(began))))
			if err := calls.BackupVerified(cmd.Context(), found.SHA256); err != nil {
				fmt.Fprintln(env.stderr, env.says("rounds: the service did not note that the backup is verified: %s", oneLine(err.Error())))
			}
			if filesDir == "" {
				return nil
			}
			to, err := openCopies(cmd.Context(), filesDir)
			if err != nil {
				return err
			}
			done, err := to.fetch(cmd.Context(), calls, args[0], g)
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, env.says("%s has their files: %s copied now, %s; %s there already", filesDir, numberOf(done.fetched, "file"), megabytes(done.bytes), numberOf(done.there, "file")))
			if done.gone > 0 {
				fmt.Fprintln(env.stdout, env.says("%s had no bytes any more", numberOf(done.gone, "file")))
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&filesDir, "files", "", "also copy the bytes of files into the directory `DIR`")
	cmd.Flags().BoolVar(&withSecrets, "with-secrets", false, "also write stored secrets and credentials, sealed")
	return cmd
}

// writeBackup writes a backup to a temporary file beside the path, verifies it, and renames it.
func writeBackup(path string, fetch func(io.Writer) error, g *gauge) (found backup.Contents, size int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		// The error names the temporary file, which means nothing to the caller.
		var of *fs.PathError
		if errors.As(err, &of) {
			err = of.Err
		}
		return found, 0, fmt.Errorf("%s: nothing can be written there: %w", path, err)
	}
	defer func() {
		_ = file.Close()
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	sum := sha256.New()
	err = packing(path, io.MultiWriter(file, sum), func(w io.Writer) error {
		found, err = verifying(w, fetch)
		return err
	})
	if err != nil {
		return found, 0, err
	}
	if err := file.Sync(); err != nil {
		return found, 0, err
	}
	if err := same(file, sum.Sum(nil), g); err != nil {
		return found, 0, fmt.Errorf("the backup was not written: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return found, 0, err
	}
	return found, info.Size(), os.Rename(file.Name(), path)
}

// packing writes to a file, compressed if its name says so.
func packing(path string, file io.Writer, write func(io.Writer) error) error {
	if !strings.HasSuffix(path, packed) {
		return write(file)
	}
	z, err := zstd.NewWriter(file, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	return errors.Join(write(z), z.Close())
}

// zstdMagic is how every zstd frame begins (RFC 8878, section 3.1.1).
const zstdMagic = "\x28\xb5\x2f\xfd"

// unpacking returns the content of a backup, compressed or not.
func unpacking(file io.Reader) (io.Reader, func(), error) {
	begin := make([]byte, len(zstdMagic))
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	whole := io.MultiReader(strings.NewReader(string(begin[:n])), file)
	if string(begin[:n]) != zstdMagic {
		return whole, func() {}, nil
	}
	// This bounds how much memory a stranger's file can make this program allocate.
	z, err := zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderMaxWindow(16<<20))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

// verifying fetches a backup and verifies it while it arrives.
func verifying(w io.Writer, fetch func(io.Writer) error) (backup.Contents, error) {
	type verified struct {
		found backup.Contents
		err   error
	}
	in, out := io.Pipe()
	done := make(chan verified, 1)
	go func() {
		found, err := backup.Verify(in, nil)
		_ = in.CloseWithError(err) // a fault ends the fetching
		done <- verified{found, err}
	}()
	err := fetch(io.MultiWriter(w, out))
	_ = out.CloseWithError(err)
	v := <-done
	var wrong *backup.FileError
	if err != nil && !errors.As(err, &wrong) {
		return v.found, err
	}
	if v.err != nil {
		return v.found, fmt.Errorf("the backup was not written: what arrived is not complete: %w", v.err)
	}
	return v.found, nil
}

// same compares a file's content with what was written to it.
func same(file *os.File, want []byte, g *gauge) error {
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	g.begin("reading it again")
	sum := sha256.New()
	meter := &metered{gauge: g}
	if _, err := io.Copy(io.MultiWriter(sum, meter), file); err != nil {
		return err
	}
	if !bytes.Equal(sum.Sum(nil), want) {
		return errors.New("the disk returns something else than was written to it")
	}
	return nil
}

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
	dryRun, withoutKeys, filesDir := false, false, ""
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

--files DIR stores the bytes of files, which "rounds backup --files" copied, in the store of
ROUNDS_FILES, unless it has them.

--dry-run only verifies the file and lists its content.`,
		Example: `  rounds restore rounds-2026-11-22.ndjson.zst --dry-run
  rounds restore rounds-2026-11-22.ndjson.zst --to redis://127.0.0.1:6379 --shards 256`,
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return restore(cmd, env, args[0], where, restoreOptions{dryRun, withoutKeys, filesDir})
		},
	}
	flags := cmd.Flags()
	settings.AddRedisFlags(flags)
	flags.StringVar(&where.to, "to", "", "the `URL` of the Redis, in place of ROUNDS_REDIS_URL and in its form")
	flags.StringVar(&where.namespace, "namespace", "", "the `NAMESPACE` to restore into, in place of ROUNDS_NAMESPACE")
	flags.IntVar(&where.shards, "shards", 0, "how many shards the namespace gets; 0: as many as the backup has")
	flags.StringVar(&filesDir, "files", "", "store the bytes of files from the directory `DIR`")
	flags.BoolVar(&withoutKeys, "without-keys", false, "leave out the keys of the API")
	flags.BoolVar(&dryRun, "dry-run", false, "only verify the file")
	return cmd
}

// restoreOptions say how a backup is restored.
type restoreOptions struct {
	dryRun, withoutKeys bool
	files               string // the directory with the bytes of files; empty: they are not restored
}

func restore(cmd *cobra.Command, env environment, path string, where restoring, o restoreOptions) error {
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
	if o.dryRun {
		return nil
	}
	var stored *restored
	if o.files != "" {
		lookup, faults := settings.Layer(env.lookup, cmd.Flags())
		if faults != nil {
			return faults
		}
		var end func()
		if stored, end, err = env.openRestored(cmd.Context(), o.files, where.lookup(lookup)); err != nil {
			return err
		}
		defer end()
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
		how := backup.Restoring{Progress: func(c backup.Counts) { g.show(c, found.Counts, 0) }, Open: keys.OpenBox, WithoutKeys: o.withoutKeys}
		if stored != nil {
			how.Object = stored.object
		}
		done, err := backup.Restore(ctx, ring, again, how)
		g.end()
		if err != nil {
			return err
		}
		restored := done.Counts
		restored.Keys -= done.WithoutKeys
		restored.Credentials -= done.Unopened + done.Expired
		fmt.Fprintln(env.stdout, env.says("restored %s into namespace %s, in %s", contents(restored), oneLine(ring.Namespace()), took(time.Since(began))))
		if stored != nil {
			fmt.Fprintln(env.stdout, env.says("%s stored; %s without their bytes", numberOf(stored.stored, "file"), numberOf(stored.lost, "file")))
		}
		if done.Expired > 0 {
			fmt.Fprintln(env.stdout, env.says("%s had expired: pollers fetch new ones", numberOf(done.Expired, "credential")))
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
		values := numberOf(found.SealedFor[id], "sealed value")
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
