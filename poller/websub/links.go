package websub

import (
	"cmp"
	"net/http"
	"regexp"
	"strings"
)

// Links are what a feed names: its hub, and itself, which is the topic.
type Links struct{ Hub, Self string }

// Or takes what is missing from others.
func (l Links) Or(others Links) Links {
	return Links{cmp.Or(l.Hub, others.Hub), cmp.Or(l.Self, others.Self)}
}

// Add adds a link, of which the first of its kind counts.
func (l *Links) Add(rel, to string) {
	for one := range strings.FieldsSeq(rel) {
		switch to := strings.TrimSpace(to); strings.ToLower(one) {
		case "hub":
			l.Hub = cmp.Or(l.Hub, to)
		case "self":
			l.Self = cmp.Or(l.Self, to)
		}
	}
}

const maxLinks = 64 // of an answer's header

var (
	linkPattern  = regexp.MustCompile(`<([^<>]+)>((?:[ \t]*;[ \t]*[A-Za-z*-]+[ \t]*(?:=[ \t]*(?:"[^"]*"|[^",; \t]*))?)*)`)
	paramPattern = regexp.MustCompile(`;[ \t]*([A-Za-z*-]+)[ \t]*(?:=[ \t]*(?:"([^"]*)"|([^",; \t]*)))?`)
)

// LinksOf reads the Link fields of an answer (RFC 8288), which come before the document's links
// (section 4).
func LinksOf(header http.Header) (l Links) {
	for _, line := range header["Link"][:min(len(header["Link"]), maxLinks)] {
		for _, link := range linkPattern.FindAllStringSubmatch(line[:min(len(line), 8<<10)], maxLinks) {
			for _, param := range paramPattern.FindAllStringSubmatch(link[2], maxLinks) {
				if strings.EqualFold(param[1], "rel") {
					l.Add(param[2]+param[3], link[1])
					break // the first counts
				}
			}
		}
	}
	return l
}
