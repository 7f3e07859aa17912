package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"strconv"
	"time"
)

const (
	heldHosts = 10 // addresses of 127/8, because the ports of one would run out

	// heldParts is how many processes the fake is. While accounts move from one replica to another
	// it has more connections than there are accounts, and one process would run out of files.
	heldParts = 2

	keySuffix = ".key"
)

// heldFakes is the fake of all accounts, each of which is in one of its processes.
type heldFakes struct {
	accounts int
	parts    []*fetchChild
	ports    []int
}

// newHeldFakes starts the fake of connectors, or of mailboxes if that is what the figures are of.
func newHeldFakes(ctx context.Context, of string, accounts int, authority string, http2 bool) (_ *heldFakes, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := heldCertificate(authority); err != nil {
		return nil, err
	}
	f := &heldFakes{accounts: accounts}
	defer func() {
		if err != nil {
			f.close()
		}
	}()
	for range heldParts {
		part, err := startAnswering(ctx, "SSL_CERT_FILE="+authority, self, of+"fake",
			"--accounts", strconv.Itoa(accounts), "--authority", authority, fmt.Sprintf("--http2=%t", http2))
		if err != nil {
			return nil, err
		}
		f.parts = append(f.parts, part)
		var where fetchAddress
		if err := part.ask("where", &where); err != nil {
			return nil, err
		}
		f.ports = append(f.ports, where.Port)
	}
	return f, f.forget()
}

// close ends the processes. It may be called on nil.
func (f *heldFakes) close() {
	if f == nil {
		return
	}
	for _, part := range f.parts {
		part.stop()
	}
}

func heldHost(n int) string { return fmt.Sprintf("127.0.1.%d", 1+n) }

func (f *heldFakes) url(account int) string {
	host, port := f.where(account)
	return fmt.Sprintf("https://%s:%d/", host, port)
}

// where returns the server of an account.
func (f *heldFakes) where(account int) (host string, port int) {
	return heldHost(account / heldParts % heldHosts), f.ports[account%heldParts]
}

// send has a message for an account, with the time.
func (f *heldFakes) send(account int) error {
	return f.parts[account%heldParts].ask(fmt.Sprint("send ", account), nil)
}

// forget begins to measure gaps anew.
func (f *heldFakes) forget() error {
	for _, part := range f.parts {
		if err := part.ask("forget", nil); err != nil {
			return err
		}
	}
	return nil
}

// waiting returns the accounts that have messages which no later call has confirmed.
func (f *heldFakes) waiting() (all heldWaiting, err error) {
	for _, part := range f.parts {
		var of heldWaiting
		if err := part.ask("waiting", &of); err != nil {
			return all, err
		}
		all.Accounts += of.Accounts
		all.Called += of.Called
	}
	return all, nil
}

// mostConnections returns how many connections a server had at once, since the last call.
func (f *heldFakes) mostConnections() (most int, err error) {
	for _, part := range f.parts {
		of := 0
		if err := part.ask("most", &of); err != nil {
			return 0, err
		}
		most = max(most, of)
	}
	return most, nil
}

// gaps returns the longest time without a call of each account, in seconds, sorted.
func (f *heldFakes) gaps() (all []float64, err error) {
	for _, part := range f.parts {
		var of []float64
		if err := part.ask("gaps", &of); err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	if len(all) != f.accounts {
		return nil, fmt.Errorf("%d of %d accounts were ever called", len(all), f.accounts)
	}
	slices.Sort(all)
	return all, nil
}

// held returns how many accounts have a call under way.
func (f *heldFakes) held() (all int, err error) {
	for _, part := range f.parts {
		of := 0
		if err := part.ask("held", &of); err != nil {
			return 0, err
		}
		all += of
	}
	return all, nil
}

// await waits until nearly all accounts are held: at any time a few are between two calls.
func (f *heldFakes) await(ctx context.Context, most time.Duration) error {
	for end := time.Now().Add(most); ; {
		held, err := f.held()
		if err != nil {
			return err
		}
		if held >= f.accounts-f.accounts/1000 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("only %d of %d accounts are held after %v", held, f.accounts, most)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// heldCertificate makes a certificate for the fake, and writes it to a file as the authority, and
// its key to one beside it.
func heldCertificate(authority string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for n := range heldHosts {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(heldHost(n)))
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for name, block := range map[string]pem.Block{authority: {Type: "CERTIFICATE", Bytes: der}, authority + keySuffix: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(&block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
