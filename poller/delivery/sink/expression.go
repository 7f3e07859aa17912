package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"

	"github.com/rounds-dev/rounds/poller/delivery"
)

const (
	maxExpression = 1000 // bytes
	maxNodes      = 200
	// memoryBudget bounds what an expression may make, in elements of lists and the like.
	memoryBudget = 10_000
)

// facts are what an expression knows of a message.
type facts struct {
	Account string            `expr:"account"`
	Kind    string            `expr:"kind"`
	Type    string            `expr:"type"`
	ID      string            `expr:"id"`
	Event   bool              `expr:"event"`
	Time    time.Time         `expr:"time"`
	Labels  map[string]string `expr:"labels"`
	Data    any               `expr:"data"`
}

// Expression is a condition on messages in the language of github.com/expr-lang/expr. It is bounded: in
// its length and its nodes; it has no variables and no predicate within a predicate, so that its time is
// proportional to the message; patterns of matches are literal; and of the functions it has only those
// that look at values.
type Expression struct {
	text         string
	program      *vm.Program
	labels, data bool // it uses them
}

// functions are the functions that an expression may call.
func functions() []string {
	return []string{"all", "any", "none", "one", "count", "len", "lower", "upper", "trim", "int", "float"}
}

// ParseExpression reads an expression. The error says what is wrong, on one line.
func ParseExpression(text string) (*Expression, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("must have at most %d bytes", maxExpression)
	}
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, unreadable(err)
	}
	e := &Expression{text: text}
	shape := &shape{of: e}
	ast.Walk(&tree.Node, shape)
	if shape.wrong != nil {
		return nil, shape.wrong
	}
	options := []expr.Option{expr.Env(facts{}), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, name := range functions() {
		options = append(options, expr.EnableBuiltin(name))
	}
	if e.program, err = expr.Compile(text, options...); err != nil {
		return nil, unreadable(err)
	}
	return e, nil
}

// unreadable returns what is wrong with an expression. The library's own text has several lines.
func unreadable(err error) error {
	text := err.Error()
	if at, ok := errors.AsType[*file.Error](err); ok {
		text = fmt.Sprintf("%s, at %d:%d", at.Message, at.Line, at.Column+1)
	}
	text, _, _ = strings.Cut(text, "\n")
	return fmt.Errorf("is no condition: %s; it may use account, kind, type, id, event, time, labels and data, and the functions %s", text, strings.Join(functions(), ", "))
}

// shape looks at the nodes of an expression.
type shape struct {
	of    *Expression
	wrong error
}

// Visit implements ast.Visitor.
func (s *shape) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		s.of.labels = s.of.labels || n.Value == "labels"
		s.of.data = s.of.data || n.Value == "data"
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		s.wrong = errors.New("must be one condition, without variables")
	case *ast.PredicateNode:
		inner := &counter{}
		ast.Walk(&n.Node, inner)
		if inner.predicates > 0 {
			s.wrong = errors.New("must not have a condition on elements within another one, such as any within any")
		}
	case *ast.BinaryNode:
		if _, literal := n.Right.(*ast.StringNode); n.Operator == "matches" && !literal {
			s.wrong = errors.New("must have a pattern in quotes after matches")
		}
	}
	if id, ok := (*node).(*ast.IdentifierNode); ok && id.Value == "$env" {
		s.wrong = errors.New("must not use $env")
	}
}

// counter counts predicates.
type counter struct{ predicates int }

// Visit implements ast.Visitor.
func (c *counter) Visit(node *ast.Node) {
	if _, ok := (*node).(*ast.PredicateNode); ok {
		c.predicates++
	}
}

// String returns the expression's text.
func (e *Expression) String() string { return e.text }

// holds reports whether a message fulfils the condition. A message to which it cannot be applied is a
// dead letter: it neither passes nor is done, and is delivered again when somebody has mended the
// expression and replays it.
func (e *Expression) holds(d *delivery.Delivery, labels map[string]string) (bool, error) {
	known := facts{Account: d.Account, Kind: d.Kind, Type: d.Message.Type, ID: d.Message.ID, Event: d.Event, Time: d.Message.Time, Labels: labels}
	if e.data && len(d.Message.Data) > 0 {
		if err := json.Unmarshal(d.Message.Data, &known.Data); err != nil {
			return false, &delivery.Dead{Err: errors.New("the filter's when needs the data, which is not JSON")}
		}
	}
	machine := vm.VM{MemoryBudget: memoryBudget}
	result, err := machine.Run(e.program, known)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return false, &delivery.Dead{Err: fmt.Errorf("the filter's when cannot be applied: %.200s; mend it, as with data?.field ?? 0, and replay the message", text)}
	}
	holds, ok := result.(bool)
	if !ok {
		return false, &delivery.Dead{Err: errors.New("the filter's when is neither true nor false; mend it and replay the message")}
	}
	return holds, nil
}
