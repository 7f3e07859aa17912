package accounts

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// Every rule of the cadence package has a letter, and each letter belongs to one rule.
// Otherwise "why" would name another rule.
func TestEveryRuleHasALetter(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "cadence/next.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes, found := NewCodes(), 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Rule") {
			return true
		}
		word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		found++
		if letter := codes.Rule(word); letter == unnamed || RuleWord(letter) != word {
			t.Errorf("rule %q has letter %q, which means %q", word, letter, RuleWord(letter))
		}
		return true
	})
	if found < 10 {
		t.Errorf("only %d rules were found", found)
	}
	if len(codes.rules) != len(rules()) || len(codes.marks) != len(marks()) {
		t.Error("two letters have the same word")
	}
	if codes.Rule("no such") != unnamed || codes.Mark("no such") != unnamed || RuleWord('?') != "?" || MarkWord('?') != "?" {
		t.Error("what has no letter has one")
	}
}
