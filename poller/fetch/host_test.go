package fetch

import "testing"

// A redirect to a name that only lowers to the first one's is another origin, and
// keeps no credential.
func TestSameOriginIsWhatIsDialled(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"https://api.g\u0130thub.com/", "https://\u212Aapi.github.com/"} {
		if SameOrigin("https://api.github.com/", other) {
			t.Errorf("%q counts as the origin of api.github.com", other)
		}
	}
	if !SameOrigin("https://api.github.com/", "https://API.GitHub.com:443/") {
		t.Error("case and the scheme's own port make another origin")
	}
}
