package feed

import "github.com/rounds-dev/rounds/accounts/strict"

// jsonLimits are the limits of a JSON Feed as a whole. listLimits are those of its
// top-level arrays, one of which holds the items.
var (
	jsonLimits = strict.Limits{Depth: 64, Values: maxElements, Within: 64}
	listLimits = strict.Limits{Depth: 64, Values: maxListed + 1000, Within: 2}
)

// guardJSON refuses a JSON Feed that would cost the parser too much. It returns
// roughly how many bytes of memory the parser will need.
func guardJSON(body []byte) (int64, error) {
	listed, err := listLimits.Check(body)
	if err != nil {
		return 0, err
	}
	values, err := jsonLimits.Check(body)
	if err != nil {
		return 0, err
	}
	return textCost*int64(len(body)) + 1200*int64(listed) + 250*int64(values), nil
}
