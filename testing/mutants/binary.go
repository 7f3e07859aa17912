package mutants

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Break breaks a rule in a built program, for which it replaces the rule's script in the binary. To
// compile the program from another source would compile most of it once more. Scripts is the folder
// that the scripts are in.
func Break(binary, scripts, rule string) error {
	m, known := Named(rule)
	if !known || m.Script == "" {
		return fmt.Errorf("there is no script with a rule %q to be broken", rule)
	}
	text, err := os.ReadFile(filepath.Join(scripts, m.Source()))
	if err != nil {
		return err
	}
	changed, err := m.Apply(string(text))
	if err != nil {
		return err
	}
	if changed, err = shortened(changed, len(text)); err != nil {
		return fmt.Errorf("%s: %w", m.Source(), err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	if n := bytes.Count(program, text); n != 1 || changed == string(text) {
		return fmt.Errorf("%q is not broken: the binary has %s %d times", rule, m.Source(), n)
	}
	return os.WriteFile(binary, bytes.Replace(program, text, []byte(changed), 1), 0o755)
}

// shortened cuts the longest line of comment in a script, so that the script has a length. A script
// that is too short gets empty lines.
func shortened(script string, length int) (string, error) {
	longest := ""
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "-- ") && len(line) > len(longest) {
			longest = line
		}
	}
	over := len(script) - length
	switch {
	case over <= 0:
		return script + strings.Repeat("\n", -over), nil
	case over > len(longest)-len("-- \n"):
		return "", fmt.Errorf("the script is %d bytes longer, and its longest line of comment has %d", over, len(longest))
	}
	return strings.Replace(script, longest, longest[:len(longest)-1-over]+"\n", 1), nil
}
