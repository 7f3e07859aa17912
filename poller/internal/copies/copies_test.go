package copies

import (
	"strings"
	"testing"
)

func TestCopiesAreBounded(t *testing.T) {
	c := New[rune](3, 10, func(v string) int { return len(v) })
	expect := func(names string, bytes int) {
		t.Helper()
		for _, name := range "abcdef" {
			if _, ok := c.Get(name); ok != strings.ContainsRune(names, name) {
				t.Errorf("%c: %v, want %q", name, ok, names)
			}
		}
		if c.bytes != bytes {
			t.Errorf("%d bytes, want %d", c.bytes, bytes)
		}
	}
	expect("", 0)
	c.Put('a', "1")
	c.Put('b', "22")
	c.Put('c', "333")
	expect("abc", 6)
	c.Put('b', "4444") // no other one
	expect("abc", 8)
	c.Put('d', "5")
	expect("d", 1)
	c.Put('e', "0123456789") // all bytes
	expect("e", 10)
	c.Put('f', "01234567890") // even more
	expect("f", 11)
	c.Put('a', "1")
	expect("a", 1)
	c.Drop('a', func(v string) bool { return v != "1" })
	c.Drop('b', func(string) bool { return true })
	expect("a", 1)
	c.Drop('a', func(v string) bool { return v == "1" })
	expect("", 0)
	c.Put('a', "1")
	c.DropAll()
	expect("", 0)
}

func TestCopiesWithoutASizeAreBoundedInNumber(t *testing.T) {
	c := New[int, string](2, 0, nil)
	for i := range 5 {
		c.Put(i, "x")
	}
	if v, ok := c.Get(4); v != "x" || !ok || len(c.all) != 1 {
		t.Errorf("%q, %v of %d", v, ok, len(c.all))
	}
}
