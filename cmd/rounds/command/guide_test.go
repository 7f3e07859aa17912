package command

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// commandsIn returns the rounds command lines in a Markdown text: in blocks of shell, and in
// code within a sentence.
func commandsIn(text string) [][]string {
	var lines []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.ReplaceAll(block[1], "\\\n", " "), "\n")...)
	}
	outside := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(text, "")
	for _, code := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(outside, -1) {
		lines = append(lines, strings.Join(strings.Fields(code[1]), " "))
	}
	var commands [][]string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " #")
		line = regexp.MustCompile(`'[^']*'|"[^"]*"`).ReplaceAllStringFunc(line, func(quoted string) string {
			return strings.Map(func(r rune) rune {
				if strings.ContainsRune(" |&;", r) {
					return '_'
				}
				return r
			}, quoted)
		})
		for _, part := range regexp.MustCompile(`\|\||&&|[|;&]`).Split(line, -1) {
			words := strings.Fields(part)
			for len(words) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) > 0 && (words[0] == "rounds" || words[0] == "./rounds") {
				commands = append(commands, words[1:])
			} else if len(words) > 2 && words[0] == "go" && words[1] == "run" && words[2] == "./cmd/rounds" {
				commands = append(commands, words[3:])
			}
		}
	}
	return commands
}

// unknownCommand returns an error if the program has no such command or flag.
func unknownCommand(words []string) error {
	root := newRoot(testEnvironment(nil))
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && rest[0] == strings.ToLower(rest[0]) {
		return fmt.Errorf("%s has no command %s", cmd.CommandPath(), rest[0])
	}
	return unknownFlag(cmd, rest)
}

func unknownFlag(cmd *cobra.Command, words []string) error {
	cmd.InitDefaultHelpFlag()
	for _, word := range words {
		if !strings.HasPrefix(word, "--") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil {
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		}
	}
	return nil
}

func TestPagesNameOnlyCommandsThatExist(t *testing.T) {
	text := "`rounds account why ID` `rounds acount` `rounds account wy x`\n```sh\nA=b ./rounds stats --watch && rounds stats --wach | jq\nrounds parked revive --reason \"a | b\" # x\n```\n"
	var wrong []string
	for _, words := range commandsIn(text) {
		if unknownCommand(words) != nil {
			wrong = append(wrong, strings.Join(words, " "))
		}
	}
	slices.Sort(wrong)
	if want := []string{"account wy x", "acount", "stats --wach"}; !slices.Equal(wrong, want) {
		t.Fatalf("the check finds %q, not %q", wrong, want)
	}
	seen := 0
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (path == ".git" || strings.HasSuffix(path, "testdata")) {
			return fs.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".md") || path == "CHANGELOG.md" {
			return nil
		}
		source, err := os.ReadFile(filepath.Join(top, path))
		if err != nil {
			return err
		}
		for _, words := range commandsIn(string(source)) {
			seen++
			if err := unknownCommand(words); err != nil {
				t.Errorf("%s: rounds %s: %v", path, strings.Join(words, " "), err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("only %d commands were looked at", seen)
	}
}
