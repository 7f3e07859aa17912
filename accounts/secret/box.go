package secret

import (
	"fmt"
)

const (
	boxInfo = "rounds box 1"
	maxBox  = 128 << 10
)

// Box is something other than a stored secret, sealed for a key. A box cannot be passed off
// as a secret, nor a secret as a box.
type Box struct {
	Key    string `json:"key"` // the ID of the public key that sealed it
	Enc    []byte `json:"enc"` // HPKE's encapsulated key
	Sealed []byte `json:"sealed"`
}

// SealBox seals a value. About is the additional data: the box opens only for a caller who
// names the same.
func (k *PublicKey) SealBox(about string, value []byte) (*Box, error) {
	if len(value) == 0 || len(value) > maxBox {
		return nil, fmt.Errorf("box: must hold 1 to %d bytes, not %d", maxBox, len(value))
	}
	enc, sealed, err := k.seal(boxInfo, []byte(about), value)
	if err != nil {
		return nil, fmt.Errorf("box: seal: %w", err)
	}
	return &Box{Key: k.id, Enc: enc, Sealed: sealed}, nil
}

// BoxInfo returns the info parameter of HPKE for boxes.
func BoxInfo() []byte { return []byte(boxInfo) }
