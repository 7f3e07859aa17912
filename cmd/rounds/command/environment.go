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

	kinds []Kind // besides the kinds of rounds
	sinks []Sink // besides the types of endpoints of rounds

	again  []string                 // variables that make the executable act as this program
	change func(*settings.Settings) // changes the demo's settings; nil: nothing does

	// patience is how long a command waits until a service on this machine listens, because the
	// service may have been started just before the command.
	patience time.Duration
	// quiet is the time without a message after which a tail says why there may be none; 0: it never
	// does.
	quiet time.Duration

	// hangups starts to catch SIGHUP, which would otherwise end the process; nil: this
	// process must not catch it.
	hangups func() <-chan os.Signal
}

// systemEnvironment returns the process's own environment.
func systemEnvironment(p Program) environment {
	return environment{
		kinds: p.Kinds, sinks: p.Sinks, patience: 2 * time.Second, quiet: 5 * time.Second,
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

// tell prints a formatted text in the language of the environment.
func (e environment) tell(format string, args ...any) error {
	_, err := fmt.Fprintln(e.stdout, e.says(format, args...))
	return err
}

// report prints why the program failed.
func (e environment) report(err error) {
	fmt.Fprintln(terminal.NewWriter(e.stderr), "rounds:", e.spoken(err.Error())) // the error may hold text that others wrote
}

// ask asks the person at the terminal whether to go on with something that cannot be undone, and
// names the service that would do it. If nobody can be asked, the command was misused, and the
// error names the flag that answers.
func (e environment) ask(calls *client.Client, question, otherwise string) (bool, error) {
	answer, err := e.answer("at "+calls.At()+": "+question+" [y/N] ", otherwise)
	switch strings.ToLower(answer) {
	case "y", "yes":
		return true, err
	}
	return false, err
}

// confirm is ask with the error of a person who does not agree.
func (e environment) confirm(calls *client.Client, question, otherwise string, declined error) error {
	agreed, err := e.ask(calls, question, otherwise)
	if err == nil && !agreed {
		return declined
	}
	return err
}

// bare returns the stream for the program's own terminal commands. No text that others wrote may go
// there.
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
