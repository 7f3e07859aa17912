// Package dovecottest starts Dovecot for tests: a separate mail server on a free loopback
// port, with a configuration, mailboxes and a log in its own directory. A test that needs
// one fails where Dovecot is not installed, and says what to install. So a green run means
// that it ran.
//
// Every account exists, with the password Password, an INBOX, and a folder Sent for sent mail. If the
// tests run as root, the server runs as the user dovecot or, without such a user, as nobody.
package dovecottest
