package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/rounds-dev/rounds/cmd/rounds/command"
)

// pageWidth is how wide a line of a command's help may be in its page.
const pageWidth = 100

// stage writes into a folder what packages and archives contain besides files of the
// repository: man pages, completions, and the unit with the path that packages use.
func stage(top, dir string, made time.Time) error {
	pages, err := manPages(command.Tree(), made)
	if err != nil {
		return err
	}
	files := make(map[string][]byte)
	for name, page := range pages {
		files["man/"+name+".gz"] = compressed(page)
	}
	scripts, err := completions(command.Tree())
	if err != nil {
		return err
	}
	for name, script := range scripts {
		files["completions/"+name] = script
	}
	unit, err := os.ReadFile(filepath.Join(top, "deployments/systemd/rounds.service"))
	if err != nil {
		return err
	}
	if files["rounds.service"], err = packagedUnit(unit); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packagedUnit returns the unit as packages install it: the binary is not the operator's.
func packagedUnit(unit []byte) ([]byte, error) {
	const operators, packages = "ExecStart=/usr/local/bin/rounds ", "ExecStart=/usr/bin/rounds "
	if bytes.Count(unit, []byte(operators)) != 1 {
		return nil, fmt.Errorf("rounds.service: must have %q once", operators)
	}
	return bytes.Replace(unit, []byte(operators), []byte(packages), 1), nil
}

// manPages returns a page for each command, by its file's name. It changes the tree.
func manPages(root *cobra.Command, made time.Time) (map[string][]byte, error) {
	pages := make(map[string][]byte)
	var walk func(*cobra.Command) error
	walk = func(cmd *cobra.Command) error {
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				if err := walk(sub); err != nil {
					return err
				}
			}
		}
		literal(cmd)
		var page bytes.Buffer
		if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1", Date: &made, Source: "rounds", Manual: "rounds"}, &page); err != nil {
			return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
		}
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = page.Bytes()
		return nil
	}
	return pages, walk(root)
}

// literal has a command's texts, which are written for a terminal, pass through the
// generator's Markdown as they are.
func literal(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	if cmd.Long != "" {
		cmd.Long = "```\n" + folded(cmd.Long) + "\n```"
	}
	escape := strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, ">", `\>`, "[", `\[`, "]", `\]`, "#", `\#`, "`", "")
	for _, flags := range []*pflag.FlagSet{cmd.NonInheritedFlags(), cmd.InheritedFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			if !strings.Contains(flag.Usage, `\`) { // an inherited one comes again
				flag.Usage = escape.Replace(flag.Usage)
			}
		})
	}
}

// folded returns a text with lines of at most pageWidth characters where it has spaces; what
// goes on in the next line is indented.
func folded(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		for utf8.RuneCountInString(line) > pageWidth {
			at := strings.LastIndexByte(string([]rune(line)[:pageWidth]), ' ')
			if strings.TrimSpace(line[:max(at, 0)]) == "" {
				break // one word is longer
			}
			b.WriteString(strings.TrimRight(line[:at], " ") + "\n")
			line = "        " + strings.TrimLeft(line[at:], " ")
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// completions returns a script for each shell, by the name that the shell expects.
func completions(root *cobra.Command) (map[string][]byte, error) {
	var bash, zsh, fish bytes.Buffer
	if err := root.GenBashCompletionV2(&bash, true); err != nil {
		return nil, err
	}
	if err := root.GenZshCompletion(&zsh); err != nil {
		return nil, err
	}
	if err := root.GenFishCompletion(&fish, true); err != nil {
		return nil, err
	}
	return map[string][]byte{"rounds.bash": bash.Bytes(), "_rounds": zsh.Bytes(), "rounds.fish": fish.Bytes()}, nil
}

// compressed returns a text as gzip has it, without a name and a time.
func compressed(text []byte) []byte {
	var into bytes.Buffer
	w, _ := gzip.NewWriterLevel(&into, gzip.BestCompression) // the level is one
	_, _ = w.Write(text)                                     // a bytes.Buffer takes everything
	_ = w.Close()
	return into.Bytes()
}
