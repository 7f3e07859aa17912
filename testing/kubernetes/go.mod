module github.com/rounds-dev/rounds/testing/kubernetes

go 1.26.0

require go.yaml.in/yaml/v3 v3.0.5

replace github.com/rounds-dev/rounds => ../..
