//go:build generators

// The generators of the package penstockpb, imported here so that go.mod and go.sum pin them.

package main

import (
	_ "google.golang.org/grpc/cmd/protoc-gen-go-grpc"
	_ "google.golang.org/protobuf/cmd/protoc-gen-go"
)
