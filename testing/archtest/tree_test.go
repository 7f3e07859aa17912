package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// tree is the source of a module.
type tree struct {
	module  string
	folders []string // at the top
	files   []file
}

// file is a Go file.
type file struct {
	path    string // from the top, with slashes
	name    string // of its package
	imports []string
	hasInit bool
	opened  []string // what it opens of package document; "*" if that does not show

	works []string            // the functions and variables that it declares, methods left out
	uses  map[string][]string // by import: what it names of that package
}

func (f *file) dir() string  { return path.Dir(f.path) }
func (f *file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

// readTree reads every Go file of a module, whatever its build tags say. It skips what
// the go command skips, and nested modules.
func readTree(top fs.FS) (tree, error) {
	var t tree
	module, err := fs.ReadFile(top, "go.mod")
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(string(module)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			t.module = strings.TrimSpace(name)
		}
	}
	return t, fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case entry.IsDir():
			base := path.Base(name)
			if strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "vendor" {
				return fs.SkipDir
			}
			if !strings.Contains(name, "/") {
				t.folders = append(t.folders, name)
			}
			if _, err := fs.Stat(top, path.Join(name, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		case path.Ext(name) != ".go":
			return nil
		}
		f, err := readFile(top, name)
		t.files = append(t.files, f)
		return err
	})
}

func readFile(top fs.FS, name string) (file, error) {
	text, err := fs.ReadFile(top, name)
	if err != nil {
		return file{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	if err != nil {
		return file{}, fmt.Errorf("parse: %w", err)
	}
	f := file{path: name, name: parsed.Name.Name, uses: make(map[string][]string)}
	called := make(map[string]string) // what the file calls an import
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imported)
		called[path.Base(imported)] = imported
		if spec.Name != nil {
			called[spec.Name.Name] = imported
		}
	}
	for _, decl := range parsed.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				f.works = append(f.works, decl.Name.Name)
				f.hasInit = f.hasInit || decl.Name.Name == "init"
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR {
					for _, name := range v.Names {
						f.works = append(f.works, name.Name)
					}
				}
			}
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && called[x.Name] != "" {
				f.uses[called[x.Name]] = append(f.uses[called[x.Name]], s.Sel.Name)
			}
		}
		return true
	})
	f.opened = opened(parsed)
	return f, nil
}

// opened returns which documents a file opens, as in document.Of(ring).Keys(). Anything else
// that it does with document.Of or document.At counts as "*".
func opened(parsed *ast.File) []string {
	var found []string
	chosen := make(map[*ast.SelectorExpr]bool) // Of and At that a method follows at once
	opener := func(n ast.Node) *ast.SelectorExpr {
		s, ok := n.(*ast.SelectorExpr)
		if !ok || s.Sel.Name != "Of" && s.Sel.Name != "At" {
			return nil
		}
		if x, ok := s.X.(*ast.Ident); !ok || x.Name != "document" {
			return nil
		}
		return s
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		method, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of := opener(method); of != nil && !chosen[of] {
			found = append(found, "*")
		}
		if call, ok := method.X.(*ast.CallExpr); ok {
			if of := opener(call.Fun); of != nil {
				chosen[of] = true
				found = append(found, method.Sel.Name)
			}
		}
		return true
	})
	return found
}
