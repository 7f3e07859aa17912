// Package secret says what secrets may be called and where they may go. It has what
// those who bind a secret and those who resolve one must agree on.
package secret
