package locale

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"
)

// says lists the functions that make texts for people, and which of their arguments is the text. A
// function without a package is known by its name alone.
var says = map[string]int{
	"errors.New": 0, "fmt.Errorf": 0, "misuse": 0, "refusal": 0, "unreadable": 0,
	"newErrorReply": 1, "invalid": 1, "unavailable": 0, "unauthorized": 0, "elsewhere": 0, "underWay": 1, "found": 1, "ownOnly": 1,
	"Fault": 1, "fault": 1, "Add": 1, "Matching": 1,
	"ask": 1, "confirm": 1, "answer": 0, "says": 0, "tell": 0, "spoken": 0,
	"Refused": 1, "NoFile": 1, "ProtocolError": 1, "protocolError": 0, "failure": 1, "broken": 1, "damaged": 1, "operator": 0, "warn": 1,
	"Plain": 0, "trouble": 0, "disable": 1,
	"panicked": 0, "putOff": 1, "undecrypted": 1, "poll": 0, "unfit": 0, "spokeBadly": 1, "brokenProxy": 0,
}

// whose are the functions whose text tells who answered, with the rest of the text.
var whose = map[string]string{"StatusError": " answered %s", "SendStatusError": " answered %s", "FileStatusError": " answered %s", "ProtocolError": " answer: %w"}

// formats are those functions whose text is a format.
var formats = []string{"fmt.Errorf", "says", "tell", "unreadable", "unfit"}

// members lists the fields of composite literals that are texts for people.
var members = []string{"Reason", "Message", "message", "none", "text", "fault", "unknown", "Damage"}

// variables lists the names of variables that have texts for people.
var variables = []string{"detail", "fault", "texts", "cure"}

// returns lists the functions that return texts for people, and which of their results is the text.
var returns = map[string]int{"reasonOf": 0, "readMessage": 1, "Error": 0, "whyRefused": 0, "HeaderNameFault": 0, "why": 0, "conditions": 0, "cure": 0}

// source has the templates of the texts in Go files, with the place where each stands first.
type source struct {
	files     *token.FileSet
	constants map[string]string // by package and name
	templates map[string]string
	behind    bool // people read a text without the name of its package, with which it may begin
}

// template returns the template of an expression, and whether it is a text. A format has its verbs
// already.
func (s *source) template(pkg string, e ast.Expr, format bool) (string, bool) {
	text, ok := "", false
	switch e := e.(type) {
	case *ast.BasicLit:
		var err error
		text, err = strconv.Unquote(e.Value)
		ok = e.Kind == token.STRING && err == nil
	case *ast.Ident:
		text, ok = s.constants[pkg+"."+e.Name]
	case *ast.SelectorExpr:
		if x, isName := e.X.(*ast.Ident); isName {
			text, ok = s.constants[x.Name+"."+e.Sel.Name]
		}
	case *ast.CallExpr:
		switch nameOf(e.Fun) {
		case "fmt.Sprintf", "fmt.Errorf":
			return s.template(pkg, e.Args[0], true)
		}
	case *ast.BinaryExpr:
		left, leftText := s.template(pkg, e.X, format)
		right, rightText := s.template(pkg, e.Y, format)
		for _, side := range []struct {
			text *string
			ok   bool
			e    ast.Expr
		}{{&left, leftText, e.X}, {&right, rightText, e.Y}} {
			if !side.ok {
				*side.text = verbOf(side.e)
			}
		}
		return left + right, leftText || rightText
	}
	if !format { // it is no call either, whose verbs stand
		text = strings.ReplaceAll(text, "%", "%%")
	}
	return text, ok
}

// verbOf returns the verb that stands in the template for an operand of a sum.
func verbOf(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok && nameOf(call.Fun) == "Error" {
		return "%w"
	}
	return "%s"
}

// nameOf returns the name of a called function, and for a method only the method's name.
func nameOf(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok && (x.Name == "errors" || x.Name == "fmt") {
			return x.Name + "." + fun.Sel.Name
		}
		return fun.Sel.Name
	}
	return ""
}

// add notes each line of a text. A text of one word is a name, and one that begins with the name of
// its package is for logs and for programs, which its callers put into other words, unless the source
// has what stands behind the name.
func (s *source) add(pkg string, e ast.Expr, format bool) {
	if many, isMap := e.(*ast.CompositeLit); isMap {
		if _, isMap = many.Type.(*ast.MapType); !isMap {
			return
		}
		for _, one := range many.Elts {
			if pair, isPair := one.(*ast.KeyValueExpr); isPair {
				s.add(pkg, pair.Value, format)
			}
		}
		return
	}
	text, ok := s.template(pkg, e, format)
	rest, named := strings.CutPrefix(text, pkg+": ")
	if !ok || named && !s.behind {
		return
	}
	if text = rest; s.behind {
		text = strings.TrimPrefix(text, ": ") // another text comes before it
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		literals, _ := parse(line)
		if !strings.Contains(line, " ") || !strings.ContainsFunc(strings.Join(literals, ""), unicode.IsLetter) {
			continue
		}
		s.note(line, e)
	}
}

// note notes a template, with where it stands first.
func (s *source) note(text string, e ast.Expr) {
	if _, known := s.templates[text]; !known {
		s.templates[text] = s.files.Position(e.Pos()).String()
	}
}

// read notes the texts of a package's files. only selects the functions that it reads; nil: all.
func (s *source) read(files fs.FS, dir string, only []string) error {
	names, err := fs.Glob(files, path.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(s.files, name, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		parsed = append(parsed, f)
		for _, d := range f.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					v := spec.(*ast.ValueSpec)
					for i := range v.Values {
						if text, ok := s.template(f.Name.Name, v.Values[i], true); ok {
							s.constants[f.Name.Name+"."+v.Names[i].Name] = text
						}
					}
				}
			}
		}
	}
	for _, f := range parsed {
		pkg := f.Name.Name
		for _, d := range f.Decls {
			fn, _ := d.(*ast.FuncDecl)
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					name := nameOf(n.Fun)
					at, ok := says[name]
					switch {
					case !ok || only != nil && !slices.Contains(only, name):
					case at < len(n.Args):
						s.add(pkg, n.Args[at], slices.Contains(formats, name))
					case len(n.Args) > 0: // a method of strict.Value, which knows its field
						s.add(pkg, n.Args[0], false)
					}
					if rest, ok := whose[name]; ok && only == nil {
						if who, ok := s.template(pkg, n.Args[0], false); ok && strings.Contains(who, " ") {
							s.note(who+rest, n.Args[0])
						}
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && only == nil && slices.Contains(members, key.Name) {
						s.add(pkg, n.Value, false)
					}
				case *ast.AssignStmt:
					for i, to := range n.Lhs {
						if only != nil || i >= len(n.Rhs) {
							break
						}
						name, isName := to.(*ast.Ident)
						member, isMember := to.(*ast.SelectorExpr)
						if !(isName && slices.Contains(variables, name.Name) || isMember && slices.Contains(members, member.Sel.Name)) {
							continue
						}
						text := n.Rhs[i]
						if n.Tok == token.ADD_ASSIGN {
							text = &ast.BinaryExpr{X: to, OpPos: n.TokPos, Op: token.ADD, Y: text}
						}
						s.add(pkg, text, false)
					}
				case *ast.ReturnStmt:
					if fn == nil || only != nil {
						break
					}
					if at, ok := returns[fn.Name.Name]; ok && at < len(n.Results) {
						s.add(pkg, n.Results[at], false)
					}
				}
				return true
			})
		}
	}
	return nil
}

// spoken are the packages whose errors and lines people read.
var spoken = []string{
	"accounts/strict", "accounts", "accounts/access", "accounts/cadence", "accounts/maintenance", "accounts/savedview", "accounts/secret", "accounts/trial",
	"cmd/rounds/api", "cmd/rounds/client", "cmd/rounds/command", "cmd/rounds/key", "cmd/rounds/listen",
	"cmd/rounds/login", "cmd/rounds/mailbox", "cmd/rounds/message", "cmd/rounds/moving", "cmd/rounds/scan", "cmd/rounds/service", "cmd/rounds/settings",
}

// stored are the packages whose failures of checks and deliveries the pages show, in the language of
// the reader. They are stored in English.
var stored = []string{
	"poller", "poller/fetch", "poller/oauth", "poller/secrets", "poller/checkers/connector", "poller/checkers/email", "poller/checkers/feed", "poller/checkers/graph", "poller/checkers/imap",
	"poller/checkers/message", "poller/checkers/telegram", "poller/checkers/wecomkf", "poller/checkers/weixin",
}

// delivered are the packages that say why a message was not delivered, often behind the name of the
// endpoint's type. Package sqlonce is not one: it is for programs, whose own errors it wraps, and the
// tables of endpoints put what it says into words of theirs.
var delivered = []string{
	"poller/delivery", "poller/delivery/internal/broker", "poller/delivery/kafka", "poller/delivery/nats", "poller/delivery/ndjson", "poller/delivery/parquet",
	"poller/delivery/postgres", "poller/delivery/sink", "poller/delivery/webhook",
}

// kinds are the packages whose faults of a config, or of a request, people read.
var kinds = []string{
	"accounts/concern",
	"poller/checkers/connector", "poller/checkers/feed", "poller/checkers/graph", "poller/checkers/imap", "poller/checkers/telegram",
	"poller/checkers/wecomkf", "poller/checkers/weixin", "poller/fetch", "poller/oauth", "poller/secrets",
}

// faults are the functions that make a kind's faults.
var faults = []string{"Fault", "fault", "Add", "Matching"}

// unspoken are texts that only people see who write programs.
var unspoken = []string{
	"%w: %q at %s",      // a key's name and the time of an entry that cannot be read
	"%s answered %d %s", // it would take the code that stands before; those with a name are in composed
	"%s answer: %s",
	"role: there is no %d",
	"box: must hold 1 to %d bytes, not %d",
	"box: seal: %w",
	"must have an example",
	"made no type",
	"type %d of endpoints of the program's own: %w",
	"must have choices if it is a choice, and only then",
	"must say that it refers to secrets if it does, and only then",
	"kind %s: field %q: %s",
	"must have a name",
	"must not have the type %%q",
	"must have a label and a help in both languages",
	"route %s: has no row in the table of rights",
	"route %s: its row says %s for %s, which is not how it is added",
	"timeline: limit: must be 1 to %d, is %d",
	"client and namespace are required",
	"the name of a type must be 1 to 32 of a-z 0-9 -",
	"two types have the name %s",
	"consumer: %s",
	"consumer %s: %w",
	"handler: missing",
	"ring: missing",
	"acknowledged by the handler",
	"a nil *delivery.Later is the error: return a nil error, declared as error, for a message that is handled",
	"webhook %q: %w",
	"forget consumers", // of a log
}

// templates returns those that need a text, and all others that the source has.
func templates(t *testing.T) (needed, known map[string]string) {
	t.Helper()
	read := func(dirs []string, only []string, behind bool) map[string]string {
		s := &source{token.NewFileSet(), make(map[string]string), make(map[string]string), behind}
		for _, dir := range dirs {
			if err := s.read(os.DirFS("../../.."), dir, only); err != nil {
				t.Fatal(err)
			}
		}
		return s.templates
	}
	needed, known = read(spoken, nil, false), read(kinds, nil, false)
	maps.Copy(needed, read(kinds, faults, false))
	maps.Copy(needed, read(stored, nil, false))
	maps.Copy(needed, read(delivered, nil, true))
	for text, at := range known {
		if strings.HasPrefix(text, "must ") { // a fault that is returned as an error
			needed[text] = at
		}
	}
	return needed, known
}

// untranslated returns the templates that have no text, with where each stands.
func untranslated(found, texts map[string]string) (missing []string) {
	for _, text := range slices.Sorted(maps.Keys(found)) {
		if _, ok := texts[text]; !ok && !slices.Contains(unspoken, text) {
			missing = append(missing, found[text]+": "+text)
		}
	}
	return missing
}

// Every message that the source has is in the catalogue.
func TestEveryMessageIsTranslated(t *testing.T) {
	texts, err := Texts(assets, Chinese)
	if err != nil {
		t.Fatal(err)
	}
	found, _ := templates(t)
	for _, missing := range untranslated(found, texts) {
		t.Error(missing)
	}
	if len(found) < 400 {
		t.Errorf("only %d were found", len(found))
	}
}

// The control of the test above: a message without a text is found, however it is written.
func TestAnUntranslatedMessageIsFound(t *testing.T) {
	const file = `package toy

const plain = "a constant that nobody translated"

func wrong(r *reader, name string, err error) error {
	r.Fault("url", "must be "+name+" at least")
	v.Fault("must be nothing")
	newErrorReply(404, plain)
	unavailable("the toy is away: " + err.Error())
	use(Fault{Field: "x", Reason: "is odd indeed"})
	env.says("%s is gone\nreally, gone", name)
	errors.New("toy: only for programs")
	return fmt.Errorf("--%s "+"is no toy: %w", name, err)
}

func reasonOf() string { return "Toys cannot be reached" }
`
	s := &source{token.NewFileSet(), make(map[string]string), make(map[string]string), false}
	if err := s.read(fstest.MapFS{"toy/toy.go": {Data: []byte(file)}}, "toy", nil); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"%s is gone", "--%s is no toy: %w", "Toys cannot be reached", "a constant that nobody translated", "is odd indeed",
		"must be %s at least", "must be nothing", "really, gone", "the toy is away: %w",
	}
	if got := slices.Sorted(maps.Keys(s.templates)); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if got := untranslated(s.templates, map[string]string{"must be nothing": "x"}); len(got) != len(want)-1 {
		t.Errorf("untranslated: %q", got)
	}

	// What a delivery says stands behind the name of the package, or behind another text.
	const sink = `package crow

func reason(err error) error {
	if away(err) {
		return broker.Plain("crow: the crow is away")
	}
	return errors.New("crow: it refuses with " + code(err) + cure(err))
}

func cure(err error) string { return ": feed the crow" }
`
	s = &source{token.NewFileSet(), make(map[string]string), make(map[string]string), true}
	if err := s.read(fstest.MapFS{"crow/crow.go": {Data: []byte(sink)}}, "crow", nil); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(s.templates)), []string{"feed the crow", "it refuses with %s%s", "the crow is away"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Every text is still needed, except in composed and library, whose texts stand in no single place
// of the source.
func TestEveryTextIsNeeded(t *testing.T) {
	names, err := fs.Glob(assets, "assets/text/*.json")
	if err != nil {
		t.Fatal(err)
	}
	needed, known := templates(t)
	maps.Copy(known, needed)
	for _, name := range names {
		if strings.Contains(name, "/composed.") || strings.Contains(name, "/library.") {
			continue
		}
		content, err := fs.ReadFile(assets, name)
		if err != nil {
			t.Fatal(err)
		}
		var texts map[string]string
		if err := json.Unmarshal(content, &texts); err != nil {
			t.Fatal(err)
		}
		for text := range texts {
			if _, ok := known[text]; !ok {
				t.Errorf("%s: the source has no %q any more", name, text)
			}
		}
	}
}
