package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// The table of searches in testing/README.md lies between these marks.
const (
	tableBegin = "<!-- explored -->\n"
	tableEnd   = "<!-- /explored -->"
	tableHead  = "| explored to the end | states | |\n|---|---|---|\n"
)

// line returns a search's line, with the number of its states.
func (s search) line(states int) string {
	where := "by `--published`"
	if s.short {
		where = "in the tests"
	}
	return fmt.Sprintf("| %s | %s | %s |\n", s, grouped(states), where)
}

// grouped writes a number as 1,234,567.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// readPublished reads from a page how many states each search has.
func readPublished(path string) (states map[string]int, table string, err error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	_, rest, begun := strings.Cut(string(page), tableBegin)
	table, _, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		return nil, "", fmt.Errorf("%s has nothing between %q and %q", path, strings.TrimSpace(tableBegin), tableEnd)
	}
	states = make(map[string]int)
	for _, s := range searches() {
		if _, line, found := strings.Cut(table, "| "+s.String()+" | "); found {
			number, _, _ := strings.Cut(line, " |")
			if states[s.String()], err = strconv.Atoi(strings.ReplaceAll(number, ",", "")); err != nil {
				return nil, "", fmt.Errorf("%s: %s: %w", path, s, err)
			}
		}
	}
	return states, table, nil
}

// publish makes every search, and puts the numbers of their states into a page. With
// short it makes only those of the tests, and leaves the others as they are. With check it writes
// nothing, and a number that is another one is an error.
func publish(path string, short, check bool, out io.Writer) error {
	before, _, err := readPublished(path)
	if err != nil {
		return err
	}
	table := tableHead
	for _, s := range searches() {
		if short && !s.short {
			table += s.line(before[s.String()])
			continue
		}
		c, err := s.config()
		if err != nil {
			return err
		}
		begun := time.Now()
		r, err := explore(c)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if r.Fault != "" {
			return fmt.Errorf("%s: %s\n%s", s, r.Fault, r.Text)
		}
		fmt.Fprintf(out, "%s: %s states, published were %s, in %v\n", s, grouped(r.States), grouped(before[s.String()]), time.Since(begun).Round(time.Second))
		table += s.line(r.States)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, _ := strings.Cut(string(page), tableBegin)
	if published, _, _ := strings.Cut(rest, tableEnd); check && published == table {
		return nil
	} else if check {
		return fmt.Errorf("%s must have:\n%s", path, table)
	}
	_, tail, _ := strings.Cut(rest, tableEnd)
	return os.WriteFile(path, []byte(head+tableBegin+table+tableEnd+tail), 0o644)
}
