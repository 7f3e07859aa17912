package wire

import (
	"slices"
	"strings"
	"testing"
)

func TestAScriptHasWhatItUsesOfSharedTexts(t *testing.T) {
	const shared = `-- shared: what two scripts have in common.

local A, B = 'a', '-- no comment' -- local C
-- What uses both.
local function both(c)
  local D = c
  return A .. B .. D
end

local list = {
  field = true,
}
local function alone() return list end
`
	for own, want := range map[string][]string{
		"return 1\n":                        {"-- shared:"},
		"return both('x')\n":                {"-- shared:", "local A, B", "-- What uses both.\nlocal function both"},
		"return A\n":                        {"-- shared:", "local A, B"},
		"return 'x'..alone()[1]\n":          {"-- shared:", "local list", "local function alone"},
		"-- both\nreturn 'both', \"A\"\n":   {"-- shared:"},
		"return redis.both, x:alone(), 1\n": {"-- shared:"},
		"--[[ it's ]] return both\n":        {"-- shared:", "local A, B", "local function both"},
		"return [==[ ]] 'both ]==], list\n": {"-- shared:", "local list"},
		"return 'it\\'s both', alone\n":     {"-- shared:", "local list", "local function alone"},
	} {
		got := assemble(parts(shared), own)
		if !strings.HasSuffix(got, own) {
			t.Errorf("%q: the script does not end with its own text:\n%s", own, got)
		}
		from := 0
		for _, part := range want {
			at := strings.Index(got[from:], part)
			if at < 0 {
				t.Errorf("%q: no %q in\n%s", own, part, got)
				break
			}
			from += at
		}
		for _, part := range []string{"local A, B", "local function both", "local list", "local function alone"} {
			if strings.Contains(got, part) && !slices.ContainsFunc(want, func(w string) bool { return strings.Contains(w, part) }) {
				t.Errorf("%q: %q, which it does not use, in\n%s", own, part, got)
			}
		}
	}
}

// What only rare branches use is made there.
func TestWhatIsRareIsMadeWhereItIsUsed(t *testing.T) {
	const shared = "local A = 1\nlocal B = 2\nlocal function a() return A end\nlocal function b() return A, B end\n"
	const own = `if x then
  -- shared here
  if y then

    return b()
  end
end
if z then
  -- shared here
  b()
end
B = a()
-- shared here
return b() + c
`
	const want = `local A = 1
local B = 2
local function a() return A end
if x then
local function b() return A, B end
  -- shared here
  if y then

    return b()
  end
end
if z then
local function b() return A, B end
  -- shared here
  b()
end
B = a()
local function b() return A, B end
-- shared here
return b() + c
`
	if got := assemble(parts(shared), own); got != want {
		t.Errorf("got\n%s", got)
	}
}

// A shared text whose parts are all used is the text.
func TestPartsAreTheWholeText(t *testing.T) {
	for name, text := range map[string]string{"entry": luaFile("entry"), "group": luaFile("group"), "timeline": luaFile("timeline")} {
		var whole strings.Builder
		for _, p := range parts(text) {
			whole.WriteString(p.text)
		}
		if whole.String() != text {
			t.Errorf("%s: the parts are\n%s", name, whole.String())
		}
	}
}
