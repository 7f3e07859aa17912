package poller

import "slices"

// FileKinds returns the kinds whose messages carry files, in alphabetical order.
func (c Checkers) FileKinds() []string {
	return slices.DeleteFunc(c.Kinds(), func(kind string) bool { return c.FileKeeper(kind) == nil })
}

// FileKeeper returns the FileKeeper of a kind, or nil if its messages carry no files.
func (c Checkers) FileKeeper(kind string) FileKeeper {
	k, _ := c[kind].(FileKeeper)
	return k
}

// Files returns the files that a message of a kind carries, each as CleanFile leaves it, and
// MaxFiles at most. There are none if the kind knows no files, or panics.
func (c Checkers) Files(kind string, m *Message) (files []File) {
	keeper := c.FileKeeper(kind)
	if keeper == nil {
		return nil
	}
	defer func() {
		if recover() != nil {
			files = nil
		}
	}()
	files = keeper.Files(m)
	files = files[:min(len(files), MaxFiles)]
	for i := range files {
		files[i] = CleanFile(files[i])
	}
	return files
}
