package faketime

import lua "github.com/yuin/gopher-lua"

// Lean has the scripts of embedded servers take half of their memory from now on. A script
// gets new memory at each run, and the race detector marks all of it: that is a fifth of what
// tests of loops cost. It suits batches of some hundred accounts; a script that needs more
// fails with "registry overflow". Call it from TestMain, before any server is started.
func Lean() {
	lua.RegistrySize = 2560
	lua.CallStackSize = 64
}
