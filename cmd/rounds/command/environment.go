package command

import (
	"io"
	"os"

	"golang.org/x/term"
)

// environment is all that the program takes from its surroundings, so that a
// test can be its surroundings.
type environment struct {
	lookup  func(name string) (value string, ok bool) // as os.LookupEnv
	environ []string                                  // as os.Environ

	stdin          io.Reader
	stdout, stderr io.Writer

	isTerminal func(stream any) bool // nil: none is

	kinds []Kind // besides those of rounds
}

// systemEnvironment is the process' own.
func systemEnvironment(kinds []Kind) environment {
	return environment{
		kinds:  kinds,
		lookup: os.LookupEnv, environ: os.Environ(),
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		isTerminal: func(stream any) bool {
			file, ok := stream.(*os.File)
			return ok && term.IsTerminal(int(file.Fd()))
		},
	}
}

// terminal reports whether a person sits at a stream.
func (e environment) terminal(stream any) bool {
	return e.isTerminal != nil && e.isTerminal(stream)
}
