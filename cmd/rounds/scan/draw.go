package scan

import (
	"fmt"
	"strings"

	"rsc.io/qr"
)

// quiet is how many modules of light stand around a code, as the standard demands.
const quiet = 4

// maxLink is the most bytes of a text that is drawn. Larger codes fit on no screen.
const maxLink = 1 << 10

func encode(link string) (*qr.Code, error) {
	if len(link) > maxLink {
		return nil, fmt.Errorf("the text of the code has more than %d bytes", maxLink)
	}
	return qr.Encode(link, qr.L)
}

// Blocks draws a code as text, light on dark as on most terminals: half blocks put two rows of
// modules on a line.
func Blocks(link string) (string, error) {
	code, err := encode(link)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		for x := -quiet; x < code.Size+quiet; x++ {
			switch upper, lower := !code.Black(x, y), !code.Black(x, y+1); {
			case upper && lower:
				out.WriteRune('█')
			case upper:
				out.WriteRune('▀')
			case lower:
				out.WriteRune('▄')
			default:
				out.WriteByte(' ')
			}
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// SVG draws a code as an SVG image without any script or style, which scales with its frame.
func SVG(link string) (string, error) {
	code, err := encode(link)
	if err != nil {
		return "", err
	}
	size := code.Size + 2*quiet
	var path strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			first := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			if x > first {
				fmt.Fprintf(&path, "M%d %dh%dv1h-%dz", first+quiet, y+quiet, x-first, x-first)
			}
		}
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[1]d" shape-rendering="crispEdges">`+
		`<rect width="%[1]d" height="%[1]d" fill="#fff"/><path d="%s" fill="#000"/></svg>`, size, path.String()), nil
}
