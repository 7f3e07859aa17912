package pages

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// functions are the templates' functions, in one language.
func (l *language) functions() template.FuncMap {
	return template.FuncMap{
		"t":       l.text,
		"th":      l.html,
		"has":     l.has,
		"b":       func(a any) template.HTML { return marked("b", l.shown([]any{a}, fmt.Sprint)[0]) },
		"code":    func(a any) template.HTML { return marked("code", a) },
		"num":     l.number,
		"percent": l.percent,
		"size":    l.size,
		"dur":     l.duration,
		"when":    l.when,
		"ago":     l.ago,
		"link":    link,
		"dict":    dict,
		"concern": l.concern,
		"says":    func(text string) string { return l.spoken().Translate(text) },
		"listed":  listed,
		"add":     func(a, b int) int { return a + b },
		"known":   known,
		"ranges":  ranges,
		"join":    strings.Join,
	}
}

// known returns the number behind a pointer, or 0 if the API left it out.
func known(a any) any {
	switch n := a.(type) {
	case *float64:
		if n != nil {
			return *n
		}
		return 0.0
	case *int:
		if n != nil {
			return *n
		}
		return 0
	}
	return a
}

// marked returns an escaped text in an element without attributes.
func marked(element string, a any) template.HTML {
	return template.HTML("<" + element + ">" + template.HTMLEscapeString(fmt.Sprint(a)) + "</" + element + ">") // #nosec G203: escaped
}

// number returns a number with its digits grouped: an integer in full, anything else with at most
// three significant digits.
func (l *language) number(a any) string {
	if n, ok := whole(a); ok {
		return l.printer.Sprintf("%d", n)
	}
	f, ok := a.(float64)
	switch {
	case !ok:
		return fmt.Sprint(a)
	case math.IsNaN(f), math.IsInf(f, 0):
		return "–"
	case math.Abs(f) >= 100, f == math.Trunc(f):
		return l.printer.Sprintf("%d", int64(math.Round(f)))
	case math.Abs(f) >= 10:
		return l.printer.Sprintf("%.1f", f)
	}
	return l.printer.Sprintf("%.2f", f)
}

// percent returns a share of 1.
func (l *language) percent(share float64) string {
	switch {
	case share > 0 && share < 0.0001:
		return "< 0.01 %"
	case share >= 0.1:
		return l.printer.Sprintf("%.1f %%", share*100)
	}
	return l.printer.Sprintf("%.2f %%", share*100)
}

// size returns a number of bytes.
func (l *language) size(a any) string {
	n, ok := whole(a)
	if !ok {
		return fmt.Sprint(a)
	}
	f, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for f >= 1024 && len(units) > 1 {
		f, units = f/1024, units[1:]
	}
	if f >= 100 || f == math.Trunc(f) {
		return l.printer.Sprintf("%.0f ", f) + units[0]
	}
	return l.printer.Sprintf("%.1f ", f) + units[0]
}

// duration returns a duration, or a number of seconds, in its two largest units.
func (l *language) duration(a any) string {
	var d time.Duration
	switch a := a.(type) {
	case time.Duration:
		d = a
	case float64:
		d = time.Duration(a * float64(time.Second))
	default:
		n, ok := whole(a)
		if !ok {
			return fmt.Sprint(a)
		}
		d = time.Duration(n) * time.Second
	}
	sign := ""
	if d < 0 {
		sign, d = "−", -d
	}
	unit := func(n int64, key string) string { return l.text("unit."+key, n) }
	two := func(n int64, large string, m int64, small string) string {
		if m == 0 {
			return sign + unit(n, large)
		}
		return sign + unit(n, large) + " " + unit(m, small)
	}
	switch s := int64(d / time.Second); {
	case d < time.Second:
		return sign + unit(d.Milliseconds(), "ms")
	case d < 10*time.Second:
		return sign + l.text("unit.s", strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0"))
	case s < 60:
		return sign + unit(s, "s")
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	case s < 86400:
		return two(s/3600, "h", s%3600/60, "min")
	default:
		return two(s/86400, "d", s%86400/3600, "h")
	}
}

// shownUTC is the form of a time that no script converts.
const shownUTC = "2006-01-02 15:04:05"

// when returns a time as an element that a script shows in the viewer's zone.
func (l *language) when(t time.Time) template.HTML { return l.time(t, "when") }

// ago returns a time as an element that says how long ago it was, or how far ahead it is.
func (l *language) ago(t time.Time) template.HTML { return l.time(t, "ago") }

func (l *language) time(t time.Time, how string) template.HTML {
	if t.IsZero() || t.Unix() <= 0 {
		return template.HTML(template.HTMLEscapeString(l.text("layout.never"))) // #nosec G203: escaped
	}
	shown := t.UTC().Format(shownUTC) + " UTC"
	text := shown
	if how == "ago" {
		text = l.relative(time.Since(t))
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s" data-%s>%s</time>`, // #nosec G203: escaped
		t.UTC().Format(time.RFC3339Nano), shown, how, template.HTMLEscapeString(text)))
}

// relative returns how long ago something was, in its largest unit.
func (l *language) relative(d time.Duration) string {
	key := "layout.ago"
	if d < 0 {
		key, d = "layout.in", -d
	}
	switch {
	case d < time.Minute:
		d = d.Truncate(time.Second)
	case d < time.Hour:
		d = d.Truncate(time.Minute)
	case d < 24*time.Hour:
		d = d.Truncate(time.Hour)
	default:
		d = d.Truncate(24 * time.Hour)
	}
	return l.text(key, l.duration(max(d, time.Second)))
}

// dict returns a map of pairs, for a template that takes several values.
func dict(pairs ...any) (map[string]any, error) {
	all := make(map[string]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		all[key] = pairs[i+1]
	}
	return all, nil
}
