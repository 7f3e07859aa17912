// Package browser opens the service's pages in a real browser, Debian's
// chromium-headless-shell, and reports what is wrong with them.
//
// A Browser is one process. Each Tab of it has cookies and a cache of its own, and keeps
// the faults of everything that it loads: errors and warnings in the console, exceptions
// that nobody caught, violations of the page's content security policy, dialogs, requests
// to another origin, and answers of 400 and above that were not expected. On demand it
// looks for text that is cut or outside the window, and runs axe-core, which looks for
// bad contrast and controls without names.
//
// The tests of this package visit every page of the dashboard, with and without
// JavaScript. Their first part is a page with one fault for each check: a check that does
// not find its fault fails the test.
package browser
