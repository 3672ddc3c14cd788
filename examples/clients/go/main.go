// A client of penstock serve. For each file it puts the documents into a table, and follows a view until changes came.
// It stops following in between, and resumes after the last position: no change is lost, and none comes twice.
//
// It prints each change as a line of JSON, and after the changes of a step the position that they reach.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "penstock.example/client/penstockpb"
)

const mostBytes = 1 << 20 // documents of one request

var (
	server  = flag.String("server", "127.0.0.1:7180", "the gRPC `address` that penstock serve prints")
	token   = flag.String("token", "", "an access `token` with the role write (or in PENSTOCK_TOKEN)")
	ca      = flag.String("ca", "", "use TLS, and trust the certificates in this `file`")
	since   = flag.String("since", "", "follow after this `position`; without it, the rows of the view come first")
	changes = flag.Int("changes", 1, "stop following at the first position after so many `changes`")
	seconds = flag.Float64("timeout", 60, "how many `seconds` to wait for an answer, or for the changes")
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: client [flags] TABLE VIEW [FILE ...]   (files of JSON lines; without one, it only follows)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *token == "" {
		*token = os.Getenv("PENSTOCK_TOKEN")
	}
	if flag.NArg() < 2 || *changes < 1 || *seconds <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), flag.Arg(1), flag.Args()[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", explained(err))
		os.Exit(1)
	}
}

func run(table, view string, files []string) error {
	channel, err := dial()
	if err != nil {
		return err
	}
	defer channel.Close()
	data := pb.NewDataClient(channel)
	ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+*token)
	position := []byte(*since)
	if len(files) == 0 {
		_, err = follow(ctx, data, view, position)
		return err
	}
	for _, name := range files {
		if err = put(ctx, data, table, name); err != nil {
			return err
		}
		if position, err = follow(ctx, data, view, position); err != nil {
			return err
		}
	}
	return nil
}

func dial() (*grpc.ClientConn, error) {
	security := insecure.NewCredentials()
	if *ca != "" {
		var err error
		if security, err = credentials.NewClientTLSFromFile(*ca, ""); err != nil {
			return nil, fmt.Errorf("%w; give --ca the file of the authority that signed the server's certificate", err)
		}
	}
	sizes := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32))
	return grpc.NewClient(*server, grpc.WithTransportCredentials(security), sizes)
}

func limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, time.Duration(*seconds*float64(time.Second)))
}

// put sends the documents of a file, in requests of at most 1 MiB.
func put(ctx context.Context, data pb.DataClient, table, name string) error {
	lines, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%w; give files that can be read", err)
	}
	for len(lines) > 0 {
		part := lines[:firstRequest(lines)]
		lines = lines[len(part):]
		if len(part) > mostBytes {
			return fmt.Errorf("%s has a line of more than 1 MiB, the most of a request; take it out", name)
		}
		if err := upsert(ctx, data, &pb.UpsertRequest{Table: table, Lines: part}); err != nil {
			return err
		}
	}
	return nil
}

func upsert(ctx context.Context, data pb.DataClient, request *pb.UpsertRequest) error {
	limited, cancel := limit(ctx)
	defer cancel()
	reply, err := data.Upsert(limited, request)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %d applied, %d equal, %d late, %d rejected\n",
		request.Table, reply.Applied, reply.Equal, reply.Late, reply.Rejected)
	for _, one := range reply.Rejections {
		fmt.Fprintf(os.Stderr, "%s, %s: %s\n", one.Table, one.Place, one.Reason)
	}
	return nil
}

// firstRequest returns the number of bytes of the first request: whole lines, at least one.
func firstRequest(lines []byte) int {
	if len(lines) <= mostBytes {
		return len(lines)
	}
	if end := bytes.LastIndexByte(lines[:mostBytes], '\n'); end >= 0 {
		return end + 1
	}
	if end := bytes.IndexByte(lines, '\n'); end >= 0 {
		return end + 1
	}
	return len(lines)
}

// follow prints the changes after a position, or the rows first, and returns the last position.
//
// A message without a token is part of a step. Its changes are kept until the position of the step comes: after a
// break in the middle of a step, the whole step comes again.
func follow(ctx context.Context, data pb.DataClient, view string, position []byte) ([]byte, error) {
	limited, cancel := limit(ctx)
	defer cancel() // ends the call
	request := &pb.WatchRequest{Views: []string{view}, Since: position, Initial: len(position) == 0}
	stream, err := data.Watch(limited, request)
	if err != nil {
		return position, err
	}
	var step []*pb.Change
	for shown := 0; shown < *changes; {
		message, err := stream.Recv()
		if err == io.EOF {
			err = fmt.Errorf("the server ended the stream; run again with --since and the last position that was printed")
		}
		if err != nil {
			return position, err
		}
		if step = append(step, message.Changes...); len(message.Token) == 0 {
			continue
		}
		position = message.Token
		if err := show(step, position); err != nil {
			return position, err
		}
		shown, step = shown+len(step), nil
	}
	return position, nil
}

// show prints the changes of a step and its position. Their JSON stays as it came, since numbers may have any size.
func show(step []*pb.Change, position []byte) error {
	if len(step) == 0 {
		return nil
	}
	var out bytes.Buffer
	for _, one := range step {
		view, err := json.Marshal(one.View)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, `{"view": %s, "group": %s`, view, one.Group)
		if len(one.Old) > 0 { // an absent result has no bytes
			fmt.Fprintf(&out, `, "old": %s`, one.Old)
		}
		if len(one.New) > 0 {
			fmt.Fprintf(&out, `, "new": %s`, one.New)
		}
		out.WriteString("}\n")
	}
	reached, err := json.Marshal(string(position))
	if err != nil {
		return err
	}
	fmt.Fprintf(&out, "{\"position\": %s}\n", reached)
	_, err = os.Stdout.Write(out.Bytes())
	return err
}

// explained returns the text of an error with the next step. Other refusals of the server name theirs.
func explained(err error) string {
	refused, ok := status.FromError(err)
	if !ok {
		return err.Error()
	}
	text := refused.Message()
	switch refused.Code() {
	case codes.Unauthenticated:
		text += "; give --token one that penstock serve prints or `penstock serve token add NAME --role write` makes"
	case codes.Unavailable:
		text += "; start penstock serve, give --server its address, and --ca if it has TLS; then run this again"
	case codes.DeadlineExceeded:
		text += "; wait longer with --timeout, or ask for fewer --changes"
	}
	return text
}
