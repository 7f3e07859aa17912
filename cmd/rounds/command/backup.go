package command

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/cmd/rounds/backup"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

// packed ends the names of compressed files.
const packed = ".zst"

// newBackupCommand makes the command that writes a backup.
func newBackupCommand(env environment) *cobra.Command {
	withSecrets := false
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
private key of ROUNDS_SECRETS_KEY opens them.`,
		Example: `  rounds backup rounds-2026-11-22.ndjson.zst
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
			if args[0] == "-" {
				err := fetch(env.stdout)
				g.end()
				return err
			}
			counts, size, err := writeBackup(args[0], fetch, g)
			g.end()
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, env.says("%s has %s: %s, taken in %s", args[0], contents(counts), megabytes(size), took(time.Since(began))))
			return nil
		}),
	}
	cmd.Flags().BoolVar(&withSecrets, "with-secrets", false, "also write stored secrets and credentials, sealed")
	return cmd
}

// writeBackup writes a backup to a temporary file beside the path, verifies it, and renames it.
func writeBackup(path string, fetch func(io.Writer) error, g *gauge) (counts backup.Counts, size int64, err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		// The error names the temporary file, which means nothing to the caller.
		var of *fs.PathError
		if errors.As(err, &of) {
			err = of.Err
		}
		return counts, 0, fmt.Errorf("%s: nothing can be written there: %w", path, err)
	}
	defer func() {
		_ = file.Close()
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	sum := sha256.New()
	err = packing(path, io.MultiWriter(file, sum), func(w io.Writer) error {
		counts, err = verifying(w, fetch)
		return err
	})
	if err != nil {
		return counts, 0, err
	}
	if err := file.Sync(); err != nil {
		return counts, 0, err
	}
	if err := same(file, sum.Sum(nil), g); err != nil {
		return counts, 0, fmt.Errorf("the backup was not written: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return counts, 0, err
	}
	return counts, info.Size(), os.Rename(file.Name(), path)
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
func verifying(w io.Writer, fetch func(io.Writer) error) (backup.Counts, error) {
	type verified struct {
		counts backup.Counts
		err    error
	}
	in, out := io.Pipe()
	done := make(chan verified, 1)
	go func() {
		found, err := backup.Verify(in, nil)
		_ = in.CloseWithError(err) // a fault ends the fetching
		done <- verified{found.Counts, err}
	}()
	err := fetch(io.MultiWriter(w, out))
	_ = out.CloseWithError(err)
	v := <-done
	var wrong *backup.FileError
	if err != nil && !errors.As(err, &wrong) {
		return v.counts, err
	}
	if v.err != nil {
		return v.counts, fmt.Errorf("the backup was not written: what arrived is not complete: %w", v.err)
	}
	return v.counts, nil
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
