package wire

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	luaparse "github.com/yuin/gopher-lua/parse"
)

// given is what Redis gives a script.
var given = []string{"KEYS", "ARGV", "redis", "string", "table", "math", "cjson",
	"ipairs", "next", "pairs", "pcall", "select", "tonumber", "tostring", "type", "unpack"}

// TestScriptsHaveWhatTheyUse makes each script that the sources make, compiles it, and looks
// for names that neither the script nor Redis defines: a misspelt one, or one of a shared
// text that the script was made without.
func TestScriptsHaveWhatTheyUse(t *testing.T) {
	scripts := scriptsOfSources(t, filepath.Join("..", ".."))
	if len(scripts) < 50 {
		t.Errorf("%d scripts found, want more", len(scripts))
	}
	for where, s := range scripts {
		compiled, err := compile(s.code().text, where)
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		for _, name := range foreign(compiled) {
			t.Errorf("%s: the script uses %s, which nothing defines", where, name)
		}
	}
	t.Run("a name that nothing defines is found", func(t *testing.T) {
		s := NewScript("broken", "return function() return stump(clock()) end")
		compiled, err := compile(s.code().text, "broken")
		if err != nil {
			t.Fatal(err)
		}
		if got := foreign(compiled); !slices.Equal(got, []string{"stump"}) {
			t.Errorf("found %q", got)
		}
	})
}

func compile(text, where string) (*lua.FunctionProto, error) {
	chunk, err := luaparse.Parse(strings.NewReader(text), where)
	if err != nil {
		return nil, err
	}
	return lua.Compile(chunk, where)
}

// foreign returns the globals of compiled Lua that Redis does not give, read or written.
func foreign(p *lua.FunctionProto) []string {
	var found []string
	for _, instruction := range p.Code {
		op, constant := int(instruction>>26), instruction&0x3ffff
		if op != lua.OP_GETGLOBAL && op != lua.OP_SETGLOBAL {
			continue
		}
		name := p.Constants[constant].String()
		if op == lua.OP_SETGLOBAL || !slices.Contains(given, name) {
			found = append(found, name)
		}
	}
	for _, inner := range p.FunctionPrototypes {
		found = append(found, foreign(inner)...)
	}
	return found
}

// scriptsOfSources makes the scripts that Go files below a folder make by wire's functions,
// or by this package's own: of the same texts, as read from the files that are embedded.
func scriptsOfSources(t *testing.T, root string) map[string]*Script {
	t.Helper()
	makers := map[string]func(string, ...string) *Script{
		"NewScript": NewScript, "NewVitalScript": NewVitalScript, "NewGroupScript": NewGroupScript, "NewTellingScript": NewTellingScript,
	}
	scripts := make(map[string]*Script)
	files := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		texts := TextsOf(os.DirFS(filepath.Dir(path)))
		ast.Inspect(source, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			maker := makers[called(call)]
			if maker == nil || len(call.Args) < 2 || call.Ellipsis.IsValid() {
				return true
			}
			where := fmt.Sprint(files.Position(call.Pos()))
			args := make([]string, len(call.Args))
			for i, arg := range call.Args {
				args[i] = textOf(arg, texts)
			}
			if args[len(args)-1] == "" {
				t.Errorf("%s: no text of its own", where)
			}
			scripts[where] = maker(args[0], args[1:]...)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return scripts
}

// called returns the name of a function of wire, "" for another package's.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok && of.Name == "wire" {
			return f.Sel.Name
		}
	}
	return ""
}

// textOf returns the text of an expression; what is not known before the program runs, as
// what users write, is empty.
func textOf(e ast.Expr, texts func(name string) string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.Ident); ok && (f.Name == "lua" || f.Name == "luaFile") {
			return texts(textOf(e.Args[0], texts))
		}
	case *ast.BinaryExpr:
		return textOf(e.X, texts) + textOf(e.Y, texts)
	}
	return ""
}
