package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// Mode is a file's permissions.
type Mode fs.FileMode

// UnmarshalText reads three or four octal digits.
func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 32)
	if err != nil || n > 0o777 || len(text) < 3 || len(text) > 4 {
		return errors.New("must be octal digits such as 660")
	}
	*m = Mode(n)
	return nil
}

// String returns them in octal.
func (m Mode) String() string { return fmt.Sprintf("%03o", uint32(m)) }
