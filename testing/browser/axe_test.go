package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

func TestAxeIsUnchanged(t *testing.T) {
	sum := sha256.Sum256([]byte(axeSource))
	readme, err := os.ReadFile("testdata/axe-core/README.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(sum[:]); !strings.Contains(string(readme), got) {
		t.Errorf("axe.min.js has the checksum %s, which its README does not name", got)
	}
	if !strings.HasPrefix(axeSource, "/*! axe v4.14.1\n") {
		t.Errorf("axe.min.js begins with %.40q", axeSource)
	}
}
