package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/rounds-dev/rounds/cmd/rounds/client"
	"github.com/rounds-dev/rounds/cmd/rounds/locale"
	"github.com/rounds-dev/rounds/cmd/rounds/settings"
	"github.com/rounds-dev/rounds/cmd/rounds/terminal"
)

// environment is everything that the program takes from its surroundings, so that a test
// can replace it.
type environment struct {
	lookup  func(name string) (value string, ok bool) // like os.LookupEnv
	environ []string                                  // like os.Environ

	stdin          io.Reader
	stdout, stderr io.Writer

	isTerminal func(stream any) bool // nil: no stream is

	haste *haste // nil: nothing hurries

	kinds []Kind // besides those of rounds

	again  []string                 // variables with which the executable acts as this program
	change func(*settings.Settings) // changes those of the demo; nil: it does not

	// patience is how long a command waits for a service on this machine to listen, as it may
	// have been started with the command before.
	patience time.Duration
	// quiet is after how long without a message a tail says why there may be none; 0: it never does.
	quiet time.Duration

	// hangups begins to catch SIGHUP, which otherwise ends a process; nil: it is not ours
	// to catch.
	hangups func() <-chan os.Signal
}

// systemEnvironment is that of the process.
func systemEnvironment(kinds []Kind) environment {
	return environment{
		kinds: kinds, patience: 2 * time.Second, quiet: 5 * time.Second,
		lookup: os.LookupEnv, environ: os.Environ(),
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		isTerminal: func(stream any) bool {
			file, ok := stream.(*os.File)
			return ok && term.IsTerminal(int(file.Fd()))
		},
	}
}

// terminal reports whether a stream is a terminal.
func (e environment) terminal(stream any) bool {
	return e.isTerminal != nil && e.isTerminal(terminal.Raw(stream))
}

// spoken returns a text in the language of the environment.
func (e environment) spoken(text string) string {
	return locale.OfEnvironment(e.lookup).Translate(text)
}

// says returns a formatted text in the language of the environment.
func (e environment) says(format string, args ...any) string {
	return e.spoken(fmt.Sprintf(format, args...))
}

// report prints why the program failed.
func (e environment) report(err error) {
	fmt.Fprintln(terminal.NewWriter(e.stderr), "rounds:", e.spoken(err.Error())) // it may hold what others wrote
}

// ask asks the person at the terminal whether to go on with something that cannot be
// undone, and names the service that would do it. If nobody can be asked, that is a misuse,
// and its error names the flag that answers.
func (e environment) ask(calls *client.Client, question, otherwise string) (bool, error) {
	answer, err := e.answer("at "+calls.At()+": "+question+" [y/N] ", otherwise)
	switch strings.ToLower(answer) {
	case "y", "yes":
		return true, err
	}
	return false, err
}

// bare is where the program itself tells a terminal what to do. Nothing that others wrote
// goes there.
func bare(stream io.Writer) io.Writer {
	if raw, ok := terminal.Raw(stream).(io.Writer); ok {
		return raw
	}
	return stream
}

// answer asks the person at the terminal, and returns one line.
func (e environment) answer(question, otherwise string) (string, error) {
	if !e.terminal(e.stdin) || !e.terminal(e.stderr) {
		return "", misuse("it cannot be undone, and nobody can be asked: use " + otherwise)
	}
	fmt.Fprint(e.stderr, e.spoken(question))
	answer, err := bufio.NewReader(e.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(answer), nil
}
