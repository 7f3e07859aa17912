package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"

	"github.com/rounds-dev/rounds/cmd/rounds/build"
)

// billOf returns the bill of materials of a binary, in CycloneDX: the modules that are
// linked into it, as the binary itself says, and Go's own library.
func billOf(info *buildinfo.BuildInfo, binary string, made time.Time) ([]byte, error) {
	text, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(text)
	about := build.Of(info)
	if about.Program != "" || len(info.Deps) == 0 {
		return nil, fmt.Errorf("%s: is no rounds with its modules", binary)
	}
	self := component(cyclonedx.ComponentTypeApplication, build.Module, about.Version)
	self.Name = filepath.Base(binary)
	self.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}}
	self.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	self.Properties = &[]cyclonedx.Property{{Name: "rounds:commit", Value: about.Commit}, {Name: "rounds:platform", Value: about.Platform}}

	std := component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(strings.Fields(info.GoVersion)[0], "go"))
	parts, refs := []cyclonedx.Component{std}, []string{std.BOMRef}
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		part := component(cyclonedx.ComponentTypeLibrary, module.Path, module.Version)
		part.Properties = &[]cyclonedx.Property{{Name: "rounds:go.sum", Value: module.Sum}}
		parts, refs = append(parts, part), append(refs, part.BOMRef)
	}
	bill := cyclonedx.NewBOM()
	bill.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, digest[:]).URN() // equal binaries, equal bills
	bill.Metadata = &cyclonedx.Metadata{Timestamp: made.UTC().Format(time.RFC3339), Component: &self}
	bill.Components = &parts
	bill.Dependencies = &[]cyclonedx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	var into bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&into, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bill)
	return into.Bytes(), err
}

// component returns a module as a part of a bill.
func component(as cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	purl := "pkg:golang/" + strings.ReplaceAll(path, "+", "%2B") + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{BOMRef: purl, Type: as, Name: path, Version: version, PackageURL: purl, Scope: cyclonedx.ScopeRequired}
}
