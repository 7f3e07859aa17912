package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// sumsName is the file with the checksums, in the form of sha256sum.
const sumsName = "SHA256SUMS"

// writeSums writes the checksum of every file in a folder.
func writeSums(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, file := range files {
		if file.Name() == sumsName {
			continue
		}
		sum, err := sumOf(filepath.Join(dir, file.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, file.Name())
	}
	return os.WriteFile(filepath.Join(dir, sumsName), []byte(b.String()), 0o644)
}

// checkSums compares each file in a folder with its checksum. It returns their number. A
// file without a checksum, or a checksum without a file, is a fault.
func checkSums(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, sumsName))
	if err != nil {
		return 0, err
	}
	known := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		want, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || filepath.Base(name) != name || known[name] {
			return 0, fmt.Errorf("%s: unreadable: %q", sumsName, line)
		}
		got, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		if got != want {
			return 0, fmt.Errorf("%s: has the checksum %s, want %s", name, got, want)
		}
		known[name] = true
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		if file.Name() != sumsName && !known[file.Name()] {
			return 0, fmt.Errorf("%s: has no checksum", file.Name())
		}
	}
	return len(known), nil
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
