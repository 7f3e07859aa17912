package pages

import (
	"bytes"
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
)

// stepWithin is how long a step may take to be sent.
const stepWithin = 30 * time.Second

// steps writes a page while its order is carried out, without JavaScript: each step hides the one
// before. The page's template has <template id="split"></template> where the steps go.
type steps struct {
	*visit
	page       *page
	title      string
	data       any // what the template shows as .D; it changes between steps
	w          http.ResponseWriter
	connection *http.ResponseController
	begun      bool
}

// asItGoes returns a writer of a page. Nothing is sent before the first step.
func (v *visit) asItGoes(w http.ResponseWriter, p *page, title string, data any) *steps {
	return &steps{visit: v, page: p, title: title, data: data, w: w, connection: http.NewResponseController(w)}
}

// begin writes the page up to the steps, once.
func (s *steps) begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	before, _, err := s.halves()
	if err != nil {
		return err
	}
	h := s.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", s.lang.Tag)
	h.Set("X-Accel-Buffering", "no") // a proxy must not keep the progress back
	h.Set(gzhttp.HeaderNoCompression, "1")
	return s.send(before)
}

// halves returns the page without its steps.
func (s *steps) halves() (before, after []byte, err error) {
	var out bytes.Buffer
	shown := &view{visit: s.visit, Page: s.page.name, In: s.page.menu, Title: s.title, D: s.data, Files: s.static}
	if err := s.page.templates[s.lang.Tag].Execute(&out, shown); err != nil {
		return nil, nil, err
	}
	before, after, _ = bytes.Cut(out.Bytes(), []byte(`<template id="split"></template>`))
	return before, after, nil
}

// step writes a block of the page.
func (s *steps) step(block string) error {
	if err := s.begin(); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := s.page.templates[s.lang.Tag].ExecuteTemplate(&out, block, &view{visit: s.visit, D: s.data, Files: s.static}); err != nil {
		return err
	}
	return s.send(out.Bytes())
}

func (s *steps) send(text []byte) error {
	_ = s.connection.SetWriteDeadline(time.Now().Add(stepWithin)) // without it the connection's own deadline holds
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.connection.Flush()
}

// end writes the result, and the rest of the page.
func (s *steps) end() error {
	if err := s.step("result"); err != nil {
		return err
	}
	_, after, err := s.halves()
	if err != nil {
		return err
	}
	return s.send(after)
}
