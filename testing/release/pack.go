package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rounds-dev/rounds/cmd/rounds/build"
)

// A member is a file of an archive.
type member struct {
	name string // with slashes
	path string // where its bytes are
	mode fs.FileMode
}

// pack writes an archive and a bill of materials for each binary in a folder, which are at
// OS_ARCH/rounds or OS_ARCH/rounds.exe. What stage wrote is at stage.
func pack(top, binaries, out string, made time.Time) error {
	platforms, err := filepath.Glob(filepath.Join(binaries, "*_*"))
	if err != nil || len(platforms) == 0 {
		return fmt.Errorf("%s: no folder OS_ARCH is in it", binaries)
	}
	for _, dir := range platforms {
		platform := filepath.Base(dir)
		binary := filepath.Join(dir, "rounds")
		windows := strings.HasPrefix(platform, "windows_")
		if windows {
			binary += ".exe"
		}
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return err
		}
		about := build.Of(info)
		if want := strings.ReplaceAll(platform, "_", "/"); about.Platform != want || about.Modified || about.Commit == "" {
			return fmt.Errorf("%s: is for %s, of commit %q, modified: %v; it must be for %s, of a commit as it is", binary, about.Platform, about.Commit, about.Modified, want)
		}
		name := "rounds_" + strings.TrimPrefix(about.Version, "v") + "_" + platform
		bill, err := billOf(info, binary, made)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name+".cdx.json"), bill, 0o644); err != nil {
			return err
		}
		members, err := membersOf(top, binary, filepath.Join(binaries, "stage"), strings.HasPrefix(platform, "linux_"))
		if err != nil {
			return err
		}
		if windows {
			err = writeFile(filepath.Join(out, name+".zip"), func(w io.Writer) error { return writeZip(w, name, members, made) })
		} else {
			err = writeFile(filepath.Join(out, name+".tar.gz"), func(w io.Writer) error { return writeTar(w, name, members, made) })
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// membersOf returns what is in an archive, in its order. With systemd it has what
// install.sh needs.
func membersOf(top, binary, staged string, systemd bool) ([]member, error) {
	members := []member{{filepath.Base(binary), binary, 0o755}}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		members = append(members, member{name, filepath.Join(top, name), 0o644})
	}
	folders := []string{"completions", "man"}
	if systemd {
		folders = append(folders, "systemd", "redis")
	}
	for _, folder := range folders {
		from := filepath.Join(staged, folder)
		if folder == "systemd" || folder == "redis" {
			from = filepath.Join(top, "deployments", folder)
		}
		files, err := os.ReadDir(from)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			info, err := file.Info()
			if err != nil || !info.Mode().IsRegular() {
				return nil, fmt.Errorf("%s: is no file: %w", file.Name(), errors.Join(err, fs.ErrInvalid))
			}
			members = append(members, member{folder + "/" + file.Name(), filepath.Join(from, file.Name()), 0o644 | info.Mode()&0o100*0o111/0o100})
		}
	}
	slices.SortStableFunc(members[1:], func(a, b member) int { return strings.Compare(a.name, b.name) })
	return members, nil
}

// writeTar writes a .tar.gz with all members below a folder, as of a time.
func writeTar(into io.Writer, folder string, members []member, made time.Time) error {
	zipped, err := gzip.NewWriterLevel(into, gzip.BestCompression)
	if err != nil {
		return err
	}
	w := tar.NewWriter(zipped)
	for _, m := range members {
		if err := copied(m, func(size int64) (io.Writer, error) {
			return w, w.WriteHeader(&tar.Header{Name: folder + "/" + m.name, Mode: int64(m.mode), Size: size, ModTime: made, Uname: "root", Gname: "root", Format: tar.FormatUSTAR})
		}); err != nil {
			return err
		}
	}
	return errors.Join(w.Close(), zipped.Close())
}

// writeZip writes a .zip with all members below a folder, as of a time.
func writeZip(into io.Writer, folder string, members []member, made time.Time) error {
	w := zip.NewWriter(into)
	for _, m := range members {
		if err := copied(m, func(int64) (io.Writer, error) {
			header := &zip.FileHeader{Name: folder + "/" + m.name, Method: zip.Deflate, Modified: made}
			header.SetMode(m.mode)
			return w.CreateHeader(header)
		}); err != nil {
			return err
		}
	}
	return w.Close()
}

// copied copies a member to where into says, which is told the size.
func copied(m member, into func(size int64) (io.Writer, error)) error {
	file, err := os.Open(m.path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	w, err := into(info.Size())
	if err == nil {
		_, err = io.Copy(w, file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", m.name, err)
	}
	return nil
}

// writeFile has a function write a file, and closes it.
func writeFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
