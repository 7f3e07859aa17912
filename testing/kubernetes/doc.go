// Package kubernetestest judges the Helm chart in deployments/kubernetes by what Helm renders of it, which is
// committed in testdata/rendered: with the default values, and with each file of testdata/values. The program in
// helm, a module of its own, renders, and the program in pin writes the schemas of testdata/schemas.
package kubernetestest
