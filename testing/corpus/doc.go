// Package corpus makes requests that no client of good will sends, and says what an API must
// never answer to them.
//
// A request begins as one of good will, a seed of testdata/seeds.jsonl, or one made up for a
// route that has none there. What [Mutate] does to it is drawn from a number alone: the
// same number makes the same request. What once found something stands in
// testdata/found.jsonl, and is asked first by every run.
package corpus
