package group

import (
	"embed"

	"github.com/rounds-dev/rounds/circulate/internal/wire"
)

//go:embed *.lua
var scripts embed.FS

// lua returns the text of one of the scripts beside this file.
var lua = wire.TextsOf(scripts)
