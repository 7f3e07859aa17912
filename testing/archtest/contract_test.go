package archtest

import (
	"flag"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

var update = flag.Bool("update", false, "write the contract anew")

// contract are the packages that Go programs outside of this repository may rely on. The guide's
// page on embedding lists the same.
var contract = []string{
	"cmd/rounds/command",
	"poller",
	"poller/delivery",
	"poller/delivery/sink",
	"poller/delivery/sqlonce",
	"poller/fetch",
	"poller/secrets",
	"accounts/strict",
	"testing/checktest",
	"testing/sinktest",
}

// exported returns what a package exports, a name a line: "func New", "type Box", "method
// Box.Open", "field Box.Size", "const Most", "var ErrFull".
func exported(tree fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return nil, err
	}
	fset, files := token.NewFileSet(), []*ast.File{}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(tree, dir+"/"+name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	read, err := doc.NewFromFiles(fset, files, dir)
	if err != nil {
		return nil, err
	}
	var names []string
	add := func(sort string, parts ...string) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !token.IsExported(part) }) {
			names = append(names, dir+": "+sort+" "+strings.Join(parts, "."))
		}
	}
	values := func(sort string, all []*doc.Value) {
		for _, v := range all {
			for _, name := range v.Names {
				add(sort, name)
			}
		}
	}
	functions := func(all []*doc.Func) {
		for _, f := range all {
			add("func", f.Name)
		}
	}
	values("const", read.Consts)
	values("var", read.Vars)
	functions(read.Funcs)
	for _, t := range read.Types {
		add("type", t.Name)
		values("const", t.Consts)
		values("var", t.Vars)
		functions(t.Funcs)
		for _, m := range t.Methods {
			add("method", t.Name, m.Name)
		}
		for _, spec := range t.Decl.Specs {
			fields(spec, func(sort, name string) { add(sort, t.Name, name) })
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// fields calls add with the fields of a struct, and with the methods of an interface.
func fields(spec ast.Spec, add func(sort, name string)) {
	declared, ok := spec.(*ast.TypeSpec)
	if !ok {
		return
	}
	sort, list := "field", (*ast.FieldList)(nil)
	switch t := declared.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		sort, list = "method", t.Methods
	}
	if list == nil {
		return
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			add(sort, name.Name)
		}
	}
}

// A change of what others may rely on shows in the committed list, so that a review sees it.
// Write it anew with: go test ./testing/archtest -run TestContract -update
func TestContract(t *testing.T) {
	var got []string
	for _, dir := range contract {
		names, err := exported(os.DirFS("../.."), dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(names) == 0 {
			t.Errorf("%s exports nothing", dir)
		}
		got = append(got, names...)
	}
	path := filepath.Join("testdata", "contract.txt")
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(got, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("is new, and not in %s: %s", path, name)
		}
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("is gone, and still in %s: %s", path, name)
		}
	}
}

func TestExported(t *testing.T) {
	tree := fstest.MapFS{
		"box/box.go": {Data: []byte(`package box

const Most = 1

var ErrFull, hidden error

type Box struct {
	Size int
	used int
}

func New() *Box { return nil }

func (b *Box) Open() {}
func (b *Box) close() {}

type Opener interface{ Open() }

type lid struct{ Open bool }

func (lid) Shut() {}

func Lone() {}
`)},
		"box/box_test.go": {Data: []byte("package box\n\nfunc Test() {}\n")},
	}
	got, err := exported(tree, "box")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"box: const Most", "box: field Box.Size", "box: func Lone", "box: func New", "box: method Box.Open", "box: method Opener.Open",
		"box: type Box", "box: type Opener", "box: var ErrFull",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// The guide's pages list the packages of the contract, and no others.
func TestGuideListsTheContract(t *testing.T) {
	for name, heading := range map[string]string{"embedding.md": "The contract", "zh-CN/embedding.md": "公开的包"} {
		page, err := os.ReadFile("../../deployments/guide/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, part, ok := strings.Cut(string(page), "\n## "+heading+"\n")
		if !ok {
			t.Fatalf("%s has no part %q", name, heading)
		}
		part, _, _ = strings.Cut(part, "\n## ")
		var listed []string
		for row := range strings.Lines(part) {
			if name, ok := strings.CutPrefix(row, "| `"); ok {
				name, _, _ = strings.Cut(name, "`")
				listed = append(listed, name)
			}
		}
		if want := slices.Sorted(slices.Values(contract)); !slices.Equal(slices.Sorted(slices.Values(listed)), want) {
			t.Errorf("%s lists %q, want %q", name, listed, want)
		}
	}
}
