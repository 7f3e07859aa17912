// Package guide is the manual: pages in Markdown beside this file, and the handler
// that shows them in the running service, with a search.
//
// A page PAGE.md is shown at PAGE below the handler's prefix, README.md at the
// prefix itself, and pages of another language in a folder named after the language.
// Every page has a translation there. Its first line has a hash of the original that it
// was made from, so a test finds translations that are older than their original.
// Links between pages work in the handler and in the files themselves. Links to other
// files of the repository lead to its home.
package guide
