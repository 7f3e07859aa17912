// Package guide is the manual: pages in Markdown beside this file, and the handler
// that shows them, rendered and searchable, in the running service.
//
// A page PAGE.md is shown at PAGE below the handler's prefix, README.md at the
// prefix itself, and pages of another language in a folder named after it. Links
// between pages work both here and where the files are read as they stand; links
// to other files of the repository lead to its home.
package guide
