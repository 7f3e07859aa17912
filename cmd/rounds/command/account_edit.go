package command

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rounds-dev/rounds/accounts"
	"github.com/rounds-dev/rounds/cmd/rounds/api"
	"github.com/rounds-dev/rounds/cmd/rounds/client"
)

func newEditCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:   "edit ID",
		Short: "Change an account's record in an editor",
		Long: `Change an account's record in an editor: the one that VISUAL names, or EDITOR, or
vi. The record is saved when the editor ends, unless nothing was changed. A record
with faults is not saved: the faults are printed, and it can be edited again. It is
not saved either if somebody else changed the account meanwhile. Unsaved text stays
in a file, whose path is printed.`,
		Example: `  rounds account edit news
  EDITOR="code --wait" rounds account edit news`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeIDs(env),
		RunE: withClient(env, func(cmd *cobra.Command, args []string, calls *client.Client) error {
			account, etag, err := calls.GetTagged(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if account.Fault != "" {
				return fmt.Errorf("%s: %s; \"rounds account add --replace\" writes it anew", args[0], account.Fault)
			}
			text, err := recordText(account)
			if err != nil {
				return err
			}
			file, err := newEditFile(text)
			if err != nil {
				return err
			}
			e := edit{env: env, calls: calls, id: args[0], etag: etag, file: file, original: text}
			return e.run(cmd.Context())
		}),
	}
}

// recordText returns the record of an account as a person edits it.
func recordText(a api.Account) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(accounts.Account{
		ID: a.ID, Kind: a.Kind, Config: a.Config, Cadence: a.Cadence, Labels: a.Labels, Priority: a.Priority, RetryBudget: a.Budget,
	})
	return text.Bytes(), err
}

func newEditFile(text []byte) (string, error) {
	file, err := os.CreateTemp("", "rounds-account-*.json")
	if err != nil {
		return "", err
	}
	_, err = file.Write(text)
	return file.Name(), errors.Join(err, file.Close())
}

// edit is one record in an editor.
type edit struct {
	env      environment
	calls    *client.Client
	id, etag string
	file     string
	original []byte
}

func (e *edit) run(ctx context.Context) error {
	answers := bufio.NewReader(e.env.stdin)
	for {
		if err := e.open(); err != nil {
			return e.kept(err)
		}
		text, err := os.ReadFile(e.file)
		if err != nil {
			return err
		}
		if bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace(e.original)) {
			fmt.Fprintln(e.env.stdout, oneLine(e.id), "unchanged")
			return os.Remove(e.file)
		}
		saved, err := e.save(ctx, text)
		switch status := client.Status(err); {
		case err == nil:
			fmt.Fprintf(e.env.stdout, "%s saved, revision %d\n", oneLine(e.id), saved.Revision)
			return os.Remove(e.file)
		case status == http.StatusPreconditionFailed:
			return e.kept(fmt.Errorf("%s was changed or removed by somebody else meanwhile, and was not saved; edit it again and repeat your change", e.id))
		case status != http.StatusUnprocessableEntity && status != http.StatusBadRequest && !errors.Is(err, errNotJSON):
			return e.kept(err)
		}
		if !e.again(answers, err) {
			return e.kept(fmt.Errorf("%s was not saved: %w", e.id, err))
		}
	}
}

// open has the editor edit the file, and waits until it ends.
func (e *edit) open() error {
	value := func(name string) string { v, _ := e.env.lookup(name); return strings.TrimSpace(v) }
	editor := cmp.Or(value("VISUAL"), value("EDITOR"), "vi")
	// The shell starts it, as git does: an editor may be given with flags and quotes.
	cmd := exec.Command("sh", "-c", editor+` "$1"`, "sh", e.file) // #nosec G204 -- it is the user's own
	cmd.Stdout, cmd.Stderr = e.env.stdout, e.env.stderr
	if terminal, ok := e.env.stdin.(*os.File); ok {
		cmd.Stdin = terminal // another stdin would be read before the answers
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %q failed, and nothing was saved: %w", editor, err)
	}
	return nil
}

var errNotJSON = errors.New("not JSON")

func (e *edit) save(ctx context.Context, text []byte) (api.Account, error) {
	if err := json.Unmarshal(text, new(any)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			before := text[:min(int(syntax.Offset), len(text))]
			return api.Account{}, fmt.Errorf("line %d: %w: %w", 1+bytes.Count(before, []byte("\n")), errNotJSON, err)
		}
		return api.Account{}, fmt.Errorf("%w: %w", errNotJSON, err)
	}
	return e.calls.PutRecord(ctx, e.id, text, e.etag)
}

// again prints what is wrong, and asks whether to go on.
func (e *edit) again(answers *bufio.Reader, fault error) bool {
	if !e.env.terminal(e.env.stdin) || !e.env.terminal(e.env.stderr) {
		return false
	}
	fmt.Fprintf(e.env.stderr, "%v\nEdit it again? [Y/n] ", fault)
	answer, err := answers.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) || err != nil && answer == "" {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "", "y", "yes":
		return true
	}
	return false
}

// kept returns an error that names the file with the text that was not saved.
func (e *edit) kept(err error) error {
	return fmt.Errorf("%w\nyour text is in %s", err, e.file)
}
